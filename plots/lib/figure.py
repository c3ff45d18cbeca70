"""How a figure is kept: as SVG, the same bytes for the same input, with what it says in its description."""
import os
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def folder():
    """Of the README's and the pages' figures; CPLAB_FIGURES names another one (tests/docs/figures.py)."""
    return Path(os.environ.get("CPLAB_FIGURES", ROOT / "docs/figures"))


def save(figure, out, says, dpi):
    """Writes OUT.svg and, elsewhere than among the pages' figures, OUT.png. `says`: the numbers drawn, a line each, as the
    pages that show the figure say them."""
    out = Path(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(f"{out}.svg", metadata={"Date": None, "Creator": None, "Description": "\n".join(says)})
    picture = Path(f"{out}.svg")
    picture.write_text(shorter(picture.read_text()))
    print(f"{out}.svg", file=sys.stderr)
    if out.parent.resolve() == folder().resolve():
        return
    figure.savefig(f"{out}.png", dpi=dpi, metadata={"Software": None})
    print(f"{out}.png", file=sys.stderr)


def shorter(svg):
    """Coordinates to a hundredth of a point, below what a screen shows: the checkout holds many."""
    head, description, drawn = svg.partition("</metadata>")  # which says numbers as they are
    return head + description + re.sub(r"\d+\.\d{3,}", lambda found: f"{float(found[0]):.2f}".rstrip("0").rstrip("."), drawn)


def shrink(picture):
    """A PNG in 128 colours of its own, a third of its bytes: the checkout holds many."""
    from PIL import Image  # which comes with matplotlib; lessons' figures do without both
    Image.open(picture).convert("RGB").quantize(128, dither=Image.Dither.NONE).save(picture, optimize=True)
