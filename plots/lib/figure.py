"""How a figure is kept: SVG and PNG, the same bytes for the same input, and what it says in the SVG's description."""
import os
import sys
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parents[2]


def folder():
    """Of the README's and the pages' figures; CPLAB_FIGURES names another one (tests/docs/figures.py)."""
    return Path(os.environ.get("CPLAB_FIGURES", ROOT / "docs/figures"))


def save(figure, out, says, dpi):
    """Writes OUT.svg and OUT.png. `says`: the numbers drawn, a line each, as the pages that show the figure say them."""
    out = Path(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(f"{out}.svg", metadata={"Date": None, "Creator": None, "Description": "\n".join(says)})
    figure.savefig(f"{out}.png", dpi=dpi, metadata={"Software": None})
    shrink(f"{out}.png")
    print(f"{out}.svg\n{out}.png", file=sys.stderr)


def shrink(picture):
    """A PNG in 128 colours of its own, a third of its bytes: the checkout holds many."""
    Image.open(picture).convert("RGB").quantize(128, dither=Image.Dither.NONE).save(picture, optimize=True)
