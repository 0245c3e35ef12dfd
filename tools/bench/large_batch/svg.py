"""Figures of the study as SVG: dots with their spread, curves over batches, bands over iterations.

Colours are Okabe and Ito's, which people who see fewer colours tell apart; each series has a marker and a dash of its
own, so that a figure is read without colours, too.
"""

import html
import math

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("", "7 4", "2 3", "9 3 2 3", "4 2", "1 2", "12 4")
FONT = 'font-family="DejaVu Sans, Helvetica, Arial, sans-serif"'


class Picture:
    def __init__(self, width, height, title):
        self.width, self.height, self.parts = width, height, []
        self.title = title
        self.text(width / 2, 24, title, size=16, anchor="middle")

    def line(self, x1, y1, x2, y2, colour="#000000", width=1, dash=""):
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
                          f'stroke-width="{width}"{dashes}/>')

    def text(self, x, y, words, size=12, anchor="start", turn=0):
        turned = f' transform="rotate({turn} {x:.1f} {y:.1f})"' if turn else ""
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}"{turned}>'
                          f"{html.escape(words)}</text>")

    def path(self, points, colour, dash="", width=2):
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.parts.append(f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="{width}"{dashes}/>')

    def band(self, upper, lower, colour):
        places = " ".join(f"{x:.1f},{y:.1f}" for x, y in upper + lower[::-1])
        self.parts.append(f'<polygon points="{places}" fill="{colour}" fill-opacity="0.18" stroke="none"/>')

    def marker(self, x, y, kind, colour, size=5, filled=True):
        fill = colour if filled else "#ffffff"
        style = f'fill="{fill}" stroke="{colour}" stroke-width="1.5"'
        corners = {1: (4, 45), 2: (3, 90), 3: (4, 0), 4: (3, 270), 5: (5, 90), 6: (6, 0)}.get(kind % 7)
        if corners is None:
            self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size * 0.9:.1f}" {style}/>')
            return
        count, turn = corners
        places = " ".join(f"{x + size * 1.2 * math.cos(angle):.1f},{y - size * 1.2 * math.sin(angle):.1f}"
                          for angle in (math.radians(turn + 360 * i / count) for i in range(count)))
        self.parts.append(f'<polygon points="{places}" {style}/>')

    def legend(self, y, names):
        """Names of the series with their marks, centred in one line, or in more where they are long."""
        rows, row, used = [], [], 0.0
        for index, name in enumerate(names):
            wide = 48 + 6.6 * len(name)
            if row and used + wide > self.width - 40:
                rows.append((row, used))
                row, used = [], 0.0
            row.append((index, name, wide))
            used += wide
        rows.append((row, used))
        for number, (row, used) in enumerate(rows):
            x, place = (self.width - used) / 2, y + 18 * number
            for index, name, wide in row:
                self.line(x, place - 4, x + 26, place - 4, COLOURS[index % 7], 2, DASHES[index % 7])
                self.marker(x + 13, place - 4, index, COLOURS[index % 7])
                self.text(x + 32, place, name)
                x += wide

    def written(self):
        return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width:.0f}" height="{self.height:.0f}" '
                f'viewBox="0 0 {self.width:.0f} {self.height:.0f}" role="img" {FONT}>\n'
                f"<title>{html.escape(self.title)}</title>\n"
                '<rect width="100%" height="100%" fill="#ffffff"/>\n' + "\n".join(self.parts) + "\n</svg>\n")


def ticks(low, high, wanted=8):
    """Round numbers from low to high."""
    raw = max(high - low, 1e-9) / wanted
    power = 10 ** math.floor(math.log10(raw))
    step = next(k * power for k in (1, 2, 5, 10) if k * power >= raw)
    first = math.ceil(low / step - 1e-9)
    return [round(i * step, 10) for i in range(first, math.floor(high / step + 1e-9) + 1)]


def bounds(values, margin=0.08, least=0.5):
    low, high = min(values), max(values)
    more = max((high - low) * margin, least)
    return low - more, high + more


def shown(value):
    return f"{value:g}"


def dots(title, rows, unit):
    """Rows (name, series, values): a filled mark at the mean, an open one a run, a bar from the least to the most."""
    series = list(dict.fromkeys(row[1] for row in rows))
    left, right, top, step = 40 + 7 * max(len(row[0]) for row in rows), 30, 66 if len(series) > 1 else 44, 30
    picture = Picture(left + 520 + right, top + step * len(rows) + 56, title)
    low, high = bounds([value for row in rows for value in row[2]])
    bottom = top + step * len(rows)
    scale = lambda value: left + 520 * (value - low) / (high - low)
    if len(series) > 1:
        picture.legend(48, series)
    for tick in ticks(low, high):
        picture.line(scale(tick), top, scale(tick), bottom, "#dddddd")
        picture.text(scale(tick), bottom + 18, shown(tick), anchor="middle")
    picture.line(left, bottom, left + 520, bottom)
    picture.text(left + 260, bottom + 40, unit, anchor="middle")
    for number, (name, kind, values) in enumerate(rows):
        y, index = top + step * (number + 0.5), series.index(kind)
        colour = COLOURS[index % 7]
        picture.text(left - 10, y + 4, name, anchor="end")
        picture.line(scale(min(values)), y, scale(max(values)), y, colour, 3)
        for value in values:
            picture.marker(scale(value), y, index, colour, 3.5, filled=False)
        picture.marker(scale(sum(values) / len(values)), y, index, colour, 6)
    return picture.written()


def curves(title, points, unit, below):
    """Points (series, x, values) over a logarithmic x: a line through the means, a band from the least to the most."""
    series = list(dict.fromkeys(point[0] for point in points))
    left, top, wide, tall = 70, 66, 600, 340
    picture = Picture(left + wide + 30, top + tall + 60, title)
    low, high = bounds([value for point in points for value in point[2]])
    xs = sorted({point[1] for point in points})
    first, last = math.log2(xs[0]) - 0.3, math.log2(xs[-1]) + 0.3
    place = lambda x, y: (left + wide * (math.log2(x) - first) / (last - first), top + tall * (high - y) / (high - low))
    picture.legend(48, series)
    for tick in ticks(low, high):
        picture.line(left, place(xs[0], tick)[1], left + wide, place(xs[0], tick)[1], "#dddddd")
        picture.text(left - 8, place(xs[0], tick)[1] + 4, shown(tick), anchor="end")
    for x in xs:
        picture.line(place(x, low)[0], top + tall, place(x, low)[0], top + tall + 5)
        picture.text(place(x, low)[0], top + tall + 20, f"{x:,}", anchor="middle")
    picture.line(left, top, left, top + tall)
    picture.line(left, top + tall, left + wide, top + tall)
    picture.text(left + wide / 2, top + tall + 44, below, anchor="middle")
    picture.text(20, top + tall / 2, unit, anchor="middle", turn=-90)
    for index, name in enumerate(series):
        own = sorted((x, values) for kind, x, values in points if kind == name)
        colour = COLOURS[index % 7]
        if len(own) > 1:
            picture.band([place(x, max(v)) for x, v in own], [place(x, min(v)) for x, v in own], colour)
        for x, values in own:
            picture.line(*place(x, min(values)), *place(x, max(values)), colour, 1.5)
        means = [place(x, sum(v) / len(v)) for x, v in own]
        picture.path(means, colour, DASHES[index % 7])
        for mean in means:
            picture.marker(*mean, index, colour)
    return picture.written()


def bands(title, panels, unit, below):
    """Panels (name, rows [x, mean, deviation, top]) side by side, two a line, over one scale of y: the mean with a band
    of a standard deviation to either side, and the mean of the largest hundredth as a dashed line."""
    wide, tall, gap, left, top = 330, 190, 50, 70, 74
    lines = (len(panels) + 1) // 2
    picture = Picture(left + 2 * wide + gap + 20, top + lines * (tall + 64), title)
    high = max(row[3] for _, rows in panels for row in rows) * 1.05
    low = min(0.0, min(row[1] - row[2] for _, rows in panels for row in rows) * 1.05)
    middle = picture.width / 2
    picture.band([(middle - 300, 36), (middle - 274, 36)], [(middle - 300, 52), (middle - 274, 52)], COLOURS[0])
    picture.line(middle - 300, 44, middle - 274, 44, COLOURS[0], 2)
    picture.text(middle - 268, 48, "mean, with a standard deviation to either side")
    picture.line(middle + 60, 44, middle + 86, 44, COLOURS[1], 2, DASHES[1])
    picture.text(middle + 92, 48, "mean of the largest hundredth")
    for number, (name, rows) in enumerate(panels):
        x0, y0 = left + (number % 2) * (wide + gap), top + (number // 2) * (tall + 64) + 10
        end = max(row[0] for row in rows) or 1
        place = lambda x, y, x0=x0, y0=y0, end=end: (x0 + wide * x / end, y0 + tall * (high - y) / (high - low))
        picture.text(x0 + wide / 2, y0 - 6, name, anchor="middle")
        for tick in ticks(low, high, 5):
            picture.line(x0, place(0, tick)[1], x0 + wide, place(0, tick)[1], "#dddddd")
            picture.text(x0 - 6, place(0, tick)[1] + 4, shown(tick), size=11, anchor="end")
        for tick in ticks(0, end, 4):
            picture.text(place(tick, low)[0], y0 + tall + 16, shown(tick), size=11, anchor="middle")
        picture.line(x0, y0, x0, y0 + tall)
        picture.line(x0, y0 + tall, x0 + wide, y0 + tall)
        picture.band([place(r[0], r[1] + r[2]) for r in rows], [place(r[0], r[1] - r[2]) for r in rows], COLOURS[0])
        picture.path([place(r[0], r[1]) for r in rows], COLOURS[0])
        picture.path([place(r[0], r[3]) for r in rows], COLOURS[1], DASHES[1], 1.5)
        picture.text(x0 + wide / 2, y0 + tall + 34, below, size=11, anchor="middle")
    picture.text(20, top + lines * (tall + 64) / 2, unit, anchor="middle", turn=-90)
    return picture.written()
