"""Small pictures as SVG of lines, boxes and words, for the lessons: a few KB each, the same bytes for the same input,
drawn by any Python 3, and readable where an editor opens them."""
import os
from html import escape
from pathlib import Path

from lib.figure import folder

# Okabe and Ito's colours, apart for every kind of colour vision; of ranks 0 to 7.
RANKS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a700", "#666666")
INK, FAINT, PALE, RED = "#222222", "#9a9a9a", "#ececec", "#d00000"
COMPUTE, COMMUNICATION = "#1f4e79", "#f2a33a"


def number(value):
    return f"{value:.2f}".rstrip("0").rstrip(".")


class Picture:
    def __init__(self, width, height, title):
        self.width, self.height, self.title = width, height, title
        self.parts = []
        self.says = []  # the numbers drawn, a line each, for the SVG's description

    def box(self, x, y, width, height, fill, stroke="none", dash="", thick=1.0, opacity=1.0):
        style = f' stroke="{stroke}" stroke-width="{number(thick)}"' if stroke != "none" else ""
        style += f' stroke-dasharray="{dash}"' if dash else ""
        style += f' fill-opacity="{number(opacity)}"' if opacity < 1 else ""
        self.parts.append(f'<rect x="{number(x)}" y="{number(y)}" width="{number(width)}" height="{number(height)}" '
                          f'fill="{fill}"{style}/>')

    def polygon(self, points, fill):
        places = " ".join(f"{number(x)},{number(y)}" for x, y in points)
        self.parts.append(f'<polygon points="{places}" fill="{fill}"/>')

    def line(self, x1, y1, x2, y2, stroke=INK, thick=1.0, dash="", arrow=False):
        style = f' stroke-dasharray="{dash}"' if dash else ""
        style += f' marker-end="url(#{self.marker(stroke)})"' if arrow else ""
        self.parts.append(f'<line x1="{number(x1)}" y1="{number(y1)}" x2="{number(x2)}" y2="{number(y2)}" '
                          f'stroke="{stroke}" stroke-width="{number(thick)}"{style}/>')

    def curve(self, x1, y1, x2, y2, stroke=INK, thick=1.0, dash="", bend=0.5):
        """An arrow that leaves downwards or upwards and arrives so."""
        middle = y1 + (y2 - y1) * bend
        style = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(f'<path d="M{number(x1)} {number(y1)} C{number(x1)} {number(middle)} {number(x2)} '
                          f'{number(middle)} {number(x2)} {number(y2)}" fill="none" stroke="{stroke}" '
                          f'stroke-width="{number(thick)}"{style} marker-end="url(#{self.marker(stroke)})"/>')

    def text(self, x, y, words, size=11, anchor="start", fill=INK, bold=False, turn=0):
        style = ' font-weight="bold"' if bold else ""
        style += f' transform="rotate({number(turn)} {number(x)} {number(y)})"' if turn else ""
        self.parts.append(f'<text x="{number(x)}" y="{number(y)}" font-size="{number(size)}" text-anchor="{anchor}" '
                          f'fill="{fill}"{style}>{escape(str(words))}</text>')

    def say(self, line):
        self.says.append(line)

    @staticmethod
    def marker(stroke):
        return "arrow" + stroke.lstrip("#")

    def save(self, name):
        """Writes NAME.svg into the folder of figures."""
        body = "\n".join(self.parts)
        strokes = sorted({part.split("url(#arrow")[1].split(")")[0] for part in self.parts if "url(#arrow" in part})
        markers = "".join(f'<marker id="arrow{s}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" '
                          f'orient="auto"><path d="M0 0L8 4L0 8z" fill="#{s}"/></marker>' for s in strokes)
        described = escape("\n".join(self.says))
        text = (f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:dc="http://purl.org/dc/elements/1.1/" '
                f'viewBox="0 0 {self.width} {self.height}" width="{self.width}" height="{self.height}" '
                f'font-family="DejaVu Sans, Helvetica, Arial, sans-serif" role="img">\n'
                f"<title>{escape(self.title)}</title>\n<metadata><dc:description>{described}</dc:description></metadata>\n"
                f"<defs>{markers}</defs>\n"
                f'<rect width="{self.width}" height="{self.height}" fill="#ffffff"/>\n{body}\n</svg>\n')
        path = Path(folder()) / f"{name}.svg"
        os.makedirs(path.parent, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path
