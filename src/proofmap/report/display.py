"""What results need of drawing: see :mod:`proofmap.results.display`."""

from proofmap.report.files import save_evaluation, save_proof
from proofmap.report.notebook import evaluation_html, proof_html, proof_png

__all__ = ["evaluation_html", "proof_html", "proof_png", "save_evaluation", "save_proof"]
