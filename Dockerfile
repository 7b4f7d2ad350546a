# Proofmap for the CPU, with a small ImageNet net, sample photographs and the web page. The README has the two commands.
FROM python:3.11-slim

# torch for the CPU: the default build for Linux brings two gigabytes of CUDA
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu

WORKDIR /build
COPY pyproject.toml hatch_build.py constraints.txt README.md LICENSE NOTICE ./
COPY src src
RUN pip install --no-cache-dir -c constraints.txt --extra-index-url "$TORCH_INDEX" '.[demo,app]'

# Any user may run it (docker run --user), so nothing is written outside the mounted folder and /tmp.
ENV HOME=/tmp
USER 1000

WORKDIR /work
ENTRYPOINT ["proofmap"]
CMD ["demo"]
