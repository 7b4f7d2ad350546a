"""Texts in a terminal: the words coloured by each map, the words of the proof underlined; in a file they stand in brackets."""

from __future__ import annotations

from rich.console import Console
from rich.style import Style
from rich.text import Text

from proofmap.cli.console import SafeConsole
from proofmap.core.text import one_line, terminal_text
from proofmap.report.word_proof import WordProof, word_proof
from proofmap.results.evaluation import Evaluation
from proofmap.results.proof_shape import percent

_MOST_TEXTS, _MOST_LABELS = 5, 8


def print_words(evaluation: Evaluation, console: Console | None = None) -> None:
    """Print the first texts, for each method and label, with coloured words."""
    console = console or SafeConsole()
    has_colours = console.color_system is not None and not console.no_color
    for i in evaluation.pictured[:_MOST_TEXTS]:
        for result in evaluation.results:
            for j in evaluation.places_of(i)[:_MOST_LABELS]:
                proof = word_proof(evaluation, result, i, j)
                by = f" by {result.name}" if len(evaluation.results) > 1 else ""
                head = f"{evaluation.image_names[i]}, {proof.label}{by} {percent(proof.shape.belief)}: {proof.shape.words}"
                console.print(Text(terminal_text(head), style="bold" if has_colours else ""))
                console.print(
                    coloured(proof) if has_colours else Text(marked(proof)), soft_wrap=not console.is_terminal
                )
    units = evaluation.inputs.position_noun
    how = "underlined" if has_colours else "in brackets"
    shade = "colour: the value of the map; " if has_colours else ""
    console.print(Text(f"{shade}{how}: the first {units} of the map that give the belief"))


def coloured(proof: WordProof) -> Text:
    """A text whose words have the colours of the map."""
    text = Text()
    for k, word in enumerate(proof.words):
        shade, bare = proof.shade(k), terminal_text(one_line(word)).rstrip()
        proves = k in proof.proving
        ink, paper = (None, None) if shade is None else ("rgb(24,24,28)", "rgb({},{},{})".format(*shade))
        text.append(bare, Style(bold=proves, underline=proves, color=ink, bgcolor=paper))
        text.append(" " if word != word.rstrip() else "")
    return text


def marked(proof: WordProof) -> str:
    """A text without colours: the words of the proof stand in brackets.

    Equal to the text if nothing proves the label.
    """
    parts = []
    for k, word in enumerate(proof.words):
        bare = terminal_text(one_line(word)).rstrip()
        parts.append((f"[{bare}]" if k in proof.proving else bare) + (" " if word != word.rstrip() else ""))
    return "".join(parts).rstrip()
