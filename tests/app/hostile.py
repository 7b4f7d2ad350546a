"""Hostile requests, made systematically: each is a name, the bytes that are sent, and whether it must be refused."""

from __future__ import annotations

import io
import json
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from PIL import Image

from tests.app.processes import mask, request


@dataclass(frozen=True)
class Hostile:
    """A request that no page of ours makes."""

    name: str
    sent: bytes
    refused: bool = True
    """Whether an answer below 400 would be a hole; otherwise any answer but an error of the server's own is fine."""
    hang_up: bool = False
    """Whether the client stops in the middle, since the server would rightly wait for the rest."""


@dataclass(frozen=True)
class World:
    """What a server has: names that a hostile request may use to get further in."""

    port: int
    photo: str
    job: str

    def ask(self, verb: str, path: str | bytes, content: object = None, **headers: str) -> bytes:
        told = {name.replace("_", "-"): value for name, value in headers.items()}
        return request(verb, path, content, headers=told, port=self.port)


# ---- paths ----------------------------------------------------------------------------------------------------------

TRAVERSALS = (
    "../../../../../../etc/passwd",
    "..%2f..%2f..%2f..%2fetc%2fpasswd",
    "%2e%2e/%2e%2e/%2e%2e/etc/passwd",
    "%252e%252e%252fetc%252fpasswd",
    "..%5c..%5cwindows%5cwin.ini",
    "....//....//etc/passwd",
    "%c0%ae%c0%ae%c0%afetc%c0%afpasswd",
    "%2fetc%2fpasswd",
    "file:%2f%2f%2fetc%2fpasswd",
    "server.py",
    "..%2fserver.py",
    "index.html%00.png",
    "%00",
    "%ff%fe",
    "%E2%80%AE",
    "a" * 5000,
    "-1",
    "9" * 400,
    "NaN",
    "%7B%7B7*7%7D%7D",
)


def traversal(world: World) -> Iterator[Hostile]:
    """Every part of a path that a client chooses, replaced by each of the traversals in turn."""
    places = (
        "/static/{}",
        "/api/photos/{}/view?net=net.py:make",
        "/api/photos/{}/beliefs?net=net.py:make",
        "/api/jobs/{}",
        f"/api/jobs/{world.job}/maps/{{}}/0",
        f"/api/jobs/{world.job}/maps/0/{{}}",
        f"/api/jobs/{world.job}/files/{{}}",
    )
    for place in places:
        for part in TRAVERSALS:
            yield Hostile(f"{place} <- {part[:40]}", world.ask("GET", place.format(part)))
    for path in (
        b"/static/\x00",
        b"/static/\xff\xfe",
        b"//etc/passwd",
        b"/\\..\\..\\etc",
        b"http://evil.example/",
        b"*",
    ):
        yield Hostile(f"path {path!r}", world.ask("GET", path))


def queries(world: World) -> Iterator[Hostile]:
    """Every value of an address that a client chooses."""
    texts = (
        "",
        "%00",
        "../../etc/passwd",
        "%FF",
        "a" * 3000,
        "timm:resnet18",
        "hf:a/b",
        "/etc/passwd",
        "net.py:other",
    )
    for text in texts:
        for place in ("view", "beliefs", "fill"):
            yield Hostile(
                f"net={text[:20]} of {place}",
                world.ask("GET", f"/api/photos/{world.photo}/{place}?net={text}"),
            )
        yield Hostile(f"labels net={text[:20]}", world.ask("GET", f"/api/labels?net={text}"))
    for number in ("-1", "0", "1e9", "NaN", "1.5", "9" * 400, "%00", "0x10", "null", ""):
        path = f"/api/photos/{world.photo}/beliefs?net=net.py:make&number={number}"
        yield Hostile(f"number={number[:60]}", world.ask("GET", path))
        path = f"/api/jobs/{world.job}?after={number}"
        yield Hostile(f"after={number[:60]}", world.ask("GET", path), refused=number != "0")


# ---- pictures -------------------------------------------------------------------------------------------------------


def picture(kind: str = "PNG", size: tuple[int, int] = (16, 16), **options: Any) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", size, (90, 140, 30)).save(file, kind, **options)
    return file.getvalue()


def png(width: int, height: int, *chunks: tuple[bytes, bytes], data: bytes = b"\0" * 10) -> bytes:
    """A PNG whose header says what it likes."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return (
            struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = [(b"IHDR", header), *chunks, (b"IDAT", zlib.compress(data)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)


@cache
def zip_bomb() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.png", b"\0" * 30_000_000)
    return file.getvalue()


@cache
def deflate_bomb() -> bytes:
    return zlib.compress(b"\0" * 30_000_000)


def pictures(world: World) -> Iterator[Hostile]:
    """Bombs, broken files, and files that are no pictures."""
    post = partial(world.ask, "POST", "/api/photos", content_type="image/png")
    bomb = deflate_bomb()
    broken = {
        "a size of 2 G x 2 G": png(2**31 - 1, 2**31 - 1),
        "a size of 30000 x 30000": png(30_000, 30_000),
        "a line of 100 million": png(100_000_000, 1),
        "no width": png(0, 10),
        "less data than it says": png(2000, 2000),
        "a text bomb": png(16, 16, (b"zTXt", b"a\0\0" + bomb)),
        "a colour profile bomb": png(16, 16, (b"iCCP", b"a\0\0" + bomb)),
        "half a PNG": picture()[:40],
        "a PNG with a broken sum": picture()[:-8] + b"\0" * 8,
        "half a JPEG": picture("JPEG")[: len(picture("JPEG")) // 2],
        "a JPEG's first bytes": b"\xff\xd8\xff\xe0",
        "a JPEG of 65535 x 65535": _jpeg_of(65_535, 65_535),
        "half a WebP": picture("WEBP")[:30],
        "half a GIF": picture("GIF")[:20],
        "a bitmap of negative size": b"BM"
        + struct.pack("<IHHIIiiHH", 54, 0, 0, 54, 40, -9, -(2**31), 1, 24)
        + b"\0" * 24,
        "a zip bomb": zip_bomb(),
        "a deflate bomb": bomb,
        "an SVG": b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>",
        "an HTML page": b"<!doctype html><script>alert(1)</script>",
        "PostScript": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n(/etc/passwd) (r) file\n",
        "a pickle": b"\x80\x04\x95cos\nsystem\n",
        "nothing": b"",
        "zeros": b"\0" * 100_000,
    }
    harmless = {"less data than it says", "a PNG with a broken sum", "a text bomb", "a colour profile bomb"}
    for name, content in broken.items():
        yield Hostile(f"photo: {name}", post(content), refused=name not in harmless)
    for kind in ("text/html", "multipart/form-data; boundary=x", "", "image", "application/x-python"):
        yield Hostile(f"photo as {kind!r}", world.ask("POST", "/api/photos", picture(), content_type=kind))
    for name in (
        "../../x.png",
        "%00.png",
        "a" * 299,
        "%3Cscript%3E.png",
        "%0d%0aSet-Cookie:a=b",
        "C:%5Cx.png",
        "--out",
    ):
        sent = world.ask("POST", f"/api/photos?name={name}", picture(), content_type="image/png")
        yield Hostile(f"photo named {name[:20]}", sent, refused=False)
    long = world.ask("POST", f"/api/photos?name={'a' * 400}", picture(), content_type="image/png")
    yield Hostile("photo with a long name", long)


def _jpeg_of(width: int, height: int) -> bytes:
    made = bytearray(picture("JPEG"))
    place = made.index(b"\xff\xc0") + 5
    made[place : place + 4] = struct.pack(">HH", height, width)
    return bytes(made)


# ---- JSON -----------------------------------------------------------------------------------------------------------

WRONG: dict[str, str] = {
    "null": "null",
    "true": "true",
    "-1": "-1",
    "half": "0.5",
    "1e999": "1e999",
    "NaN": "NaN",
    "Infinity": "-Infinity",
    "huge": "9" * 5000,
    "empty": '""',
    "NUL": '"\\u0000"',
    "half a character": '"\\ud800"',
    "markup": '"<script>alert(1)</script>"',
    "a path": '"/etc/passwd"',
    "long": json.dumps("x" * 100_000),
    "list": "[]",
    "lists": "[[[]]]",
    "many": json.dumps([0] * 10_000),
    "table": '{"a": 1}',
}


def bodies(world: World) -> dict[str, tuple[str, dict[str, Any]]]:
    """What is sent to each route, as it should be."""
    net = {"photo": world.photo, "net": "net.py:make"}
    return {
        "job": ("/api/jobs", {**net, "labels": [0], "methods": ["gradient"], "fill": "gray", "seed": 0}),
        "paint": (
            "/api/paint",
            {**net, "fill": "gray", "mask": mask(), "labels": [0], "job": world.job, "seed": 0},
        ),
        "sample": ("/api/photos", {"sample": "cat"}),
    }


def fields(world: World) -> Iterator[Hostile]:
    """Every field of every body, replaced by each wrong value in turn; left out; and beside one that nobody knows."""
    harmless = {("paint", "labels", "list"), ("paint", "job", "null")}
    for kind, (path, body) in bodies(world).items():
        for name in body:
            for wrong, text in WRONG.items():
                parts = [f"{json.dumps(k)}: {text if k == name else json.dumps(v)}" for k, v in body.items()]
                sent = world.ask("POST", path, ("{" + ", ".join(parts) + "}").encode())
                yield Hostile(f"{kind}.{name} = {wrong}", sent, refused=(kind, name, wrong) not in harmless)
        yield Hostile(
            f"{kind} with a field more", world.ask("POST", path, {**body, "__class__": "os.system"})
        )
        for wrong, text in WRONG.items():
            yield Hostile(f"{kind} is {wrong}", world.ask("POST", path, text.encode()))
        for wrong, content in {
            "deep lists": b"[" * 200_000,
            "deep tables": b'{"a":' * 100_000,
            "no UTF-8": b'{"photo": "\xff\xfe"}',
            "half": json.dumps(body).encode()[:-5],
            "nothing": b"",
            "too much": b'{"a": "' + b"x" * 1_100_000 + b'"}',
        }.items():
            yield Hostile(f"{kind}: {wrong}", world.ask("POST", path, content))


SPECS = (
    "evil.py:make",
    "/tmp/evil.py:make",
    "EVIL.PY:make",
    "gradient:../../x",
    "random:seed=__import__('os').system('id')",
    "belief-mask:fills=images:/etc",
    "belief-mask:fill=images:source=/etc",
    "learned-mask:fill=images:source=/etc",
    "rise:masks=1000000000",
    "rise:masks=-1",
    "rise:masks=nan",
    "smooth-grad:samples=1e308",
    "captum:method=os.system",
    "top-label:" * 40 + "random",
    "top-label:evil.py:make",
    "given-maps:file=/etc/passwd",
    "masker:weights=/etc/passwd",
    "gradient:" + "a=1," * 60,
    "gradient\x00",
    "gradient\n",
    "ɡradient",
    "nothing",
    ":",
    "=",
    ",",
)
FILLS = (
    "evil.py:make",
    "images:/etc",
    "images:source=/etc/passwd",
    "images:source=..",
    "blur:sigma=1e308",
    "blur:radius=100000000",
    "noise:std=nan",
    "color:value=nan",
    "images:size=1000000000",
    "nothing",
    "gray\x00",
)
NETS = (
    "net.py",
    "/net.py:make",
    "../net.py:make",
    "evil.py:make",
    "timm:resnet18",
    "hf:a/b",
    "torchvision:resnet18",
    "",
)


def specs(world: World) -> Iterator[Hostile]:
    """Methods, fills and nets that would read files, run code, or never end."""
    for kind in ("job", "paint"):
        path, body = bodies(world)[kind]
        for fill in FILLS:
            yield Hostile(f"{kind} with fill {fill!r}", world.ask("POST", path, {**body, "fill": fill}))
        for net in NETS:
            yield Hostile(f"{kind} with net {net!r}", world.ask("POST", path, {**body, "net": net}))
    path, body = bodies(world)["job"]
    for spec in SPECS:
        yield Hostile(f"method {spec[:40]!r}", world.ask("POST", path, {**body, "methods": [spec]}))
    for labels in ([5], [0, 0], [-1], [2**40], list(range(9)), [0.0], ["cat"], [True], [[0]]):
        yield Hostile(f"labels {labels}", world.ask("POST", path, {**body, "labels": labels}))
    path, body = bodies(world)["paint"]
    for wrong in ("", "=", "//8=", "A" * 600_000, "/////////w==", "\u00e9", "data:,"):
        yield Hostile(f"mask {wrong[:20]!r}", world.ask("POST", path, {**body, "mask": wrong}))


# ---- other sites, other names, other verbs --------------------------------------------------------------------------


def strangers(world: World) -> Iterator[Hostile]:
    """Pages of other sites, and names that were made to point here."""
    asked = bodies(world)["job"]
    for origin in (
        "http://evil.example",
        "null",
        "https://127.0.0.1",
        f"http://localhost:{world.port}",
        "file://",
        "",
    ):
        yield Hostile(f"origin {origin!r}, reading", world.ask("GET", "/api/about", Origin=origin))
        yield Hostile(f"origin {origin!r}, writing", world.ask("POST", *asked, Origin=origin))
    for site in ("cross-site", "same-site", "CROSS-SITE", "nonsense"):
        for path in ("/api/about", "/idea", "/static/index.html"):
            yield Hostile(f"{site} {path}", world.ask("GET", path, Sec_Fetch_Site=site))
        yield Hostile(f"{site}, writing", world.ask("POST", *asked, Sec_Fetch_Site=site))
    for host in (
        "evil.example",
        f"evil.example:{world.port}",
        f"127.0.0.1.evil.example:{world.port}",
        "0.0.0.0",
        "127.0.0.1@evil.example",
        "127.0.0.1:80:80",
        "[::1",
        "localhost.",
        "2130706433",
        "0x7f.1",
        "",
        "127.0.0.1 evil.example",
        "127.0.0.1:99999999999999999999x",
    ):
        yield Hostile(f"host {host!r}", world.ask("GET", "/api/about", Host=host))
    plain = world.ask("GET", "/api/about")
    yield Hostile("no host", plain.replace(f"Host: 127.0.0.1:{world.port}\r\n".encode(), b""))
    yield Hostile(
        "two hosts", plain.replace(b"Connection: close", b"Connection: close\r\nHost: evil.example")
    )


def verbs(world: World) -> Iterator[Hostile]:
    paths = (
        "/",
        "/api/about",
        "/api/photos",
        "/api/jobs",
        f"/api/jobs/{world.job}",
        "/api/paint",
        "/idea",
    )
    for path in paths:
        for verb in ("PUT", "PATCH", "TRACE", "OPTIONS", "CONNECT", "PROPFIND", "get", "DELETE"):
            if (verb, path) != ("DELETE", f"/api/jobs/{world.job}"):
                yield Hostile(f"{verb} {path}", world.ask(verb, path))


def framing(world: World) -> Iterator[Hostile]:
    """Requests that are no proper HTTP, too long, or lie about their length."""
    plain = world.ask("GET", "/api/about")
    post = world.ask("POST", "/api/photos", b"", content_type="image/png")
    chunked = post.replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    json_chunked = chunked.replace(b"/api/photos", b"/api/jobs")
    chunk = b"100000\r\n" + b"x" * 0x100000 + b"\r\n"

    def with_header(line: bytes) -> bytes:
        return plain.replace(b"Connection: close", b"Connection: close\r\n" + line)

    stopped = {"a body that stops", "half a request", "chunks of a huge size", "zeros", "TLS"}
    for name, sent in {
        "25 MB in chunks": chunked + chunk * 25 + b"0\r\n\r\n",
        "2 MB of JSON in chunks": json_chunked + chunk * 2 + b"0\r\n\r\n",
        "a length of 30 MB": post.replace(b"Content-Length: 0", b"Content-Length: 30000000"),
        "a length of 10^30": post.replace(b"Content-Length: 0", b"Content-Length: 1" + b"0" * 30),
        "a negative length": post.replace(b"Content-Length: 0", b"Content-Length: -1"),
        "a length in letters": post.replace(b"Content-Length: 0", b"Content-Length: many"),
        "two lengths": post.replace(b"Content-Length: 0", b"Content-Length: 0\r\nContent-Length: 9"),
        "a length and chunks": chunked.replace(
            b"Transfer-Encoding", b"Content-Length: 3\r\nTransfer-Encoding"
        )
        + b"0\r\n\r\n",
        "chunks of a wrong size": chunked + b"zz\r\nabc\r\n0\r\n\r\n",
        "chunks of a huge size": chunked + b"f" * 40 + b"\r\nabc",
        "gzip and chunks": chunked.replace(b"chunked", b"gzip, chunked") + b"0\r\n\r\n",
        "a header of 200 KB": with_header(b"X-Long: " + b"a" * 200_000),
        "5000 headers": with_header(b"\r\n".join(b"X-%d: " % k + b"a" * 40 for k in range(5000))),
        "a header without a colon": with_header(b"nonsense"),
        "a header with NUL": with_header(b"X-A: a\0b"),
        "a folded header": with_header(b"X-A: a\r\n folded: b"),
        "a path of 200 KB": plain.replace(b"/api/about", b"/" + b"a" * 200_000),
        "HTTP 9": plain.replace(b"HTTP/1.1", b"HTTP/9.9"),
        "no HTTP": b"hello\r\n\r\n",
        "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 200,
        "HTTP 2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "zeros": b"\0" * 1000,
        "a web socket": with_header(
            b"Upgrade: websocket\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13"
        ),
        "a body that stops": post.replace(b"Content-Length: 0", b"Content-Length: 500") + b"abc",
        "half a request": plain[:20],
    }.items():
        harmless = name in ("a web socket", "a folded header", "HTTP 9")
        yield Hostile(name, sent, refused=not harmless, hang_up=name in stopped)


KINDS = (traversal, queries, pictures, fields, specs, strangers, verbs, framing)
