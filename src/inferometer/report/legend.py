"""The legend as HTML: one switch a series, with its line pattern, marker shape and colour."""

from __future__ import annotations

from html import escape

from inferometer.report.charts import Panel, Series

_OUTLINES = {
    "circle": "<circle cx='21' cy='8' r='4.6'/>",
    "square": "<rect x='16.8' y='3.8' width='8.4' height='8.4'/>",
    "diamond": "<path d='M21 2.2 26.8 8 21 13.8 15.2 8Z'/>",
    "triangle-up": "<path d='M21 2.4 26.4 11.8H15.6Z'/>",
    "triangle-down": "<path d='M21 13.6 26.4 4.2H15.6Z'/>",
    "pentagon": "<path d='M21 2.6 26.2 6.3 24.2 12.4H17.8L15.8 6.3Z'/>",
    "hexagon": "<path d='M21 2.6 25.8 5.3V10.7L21 13.4 16.2 10.7V5.3Z'/>",
}
_PATTERNS = {
    "solid": "",
    "dash": "6 4",
    "dot": "2 3",
    "dashdot": "7 3 2 3",
    "longdash": "11 4",
}


def legends(panels: tuple[Panel, ...]) -> str:
    """A group of switches a panel; the page script shows the one that is selected."""
    return "".join(
        f"<div class='legend' role='group' aria-label='Series' data-panel='{index}'"
        f"{' hidden' if index else ''}>{''.join(_switch(item) for item in panel.series)}</div>"
        for index, panel in enumerate(panels)
    )


def _switch(series: Series) -> str:
    return (
        f"<button type='button' aria-pressed='true' data-series='{escape(series.name)}'>"
        f"<svg width='42' height='16' aria-hidden='true' style='color:var(--series-"
        f"{series.colour})'><line x1='1' y1='8' x2='41' y2='8' stroke='currentColor' "
        f"stroke-width='2' stroke-dasharray='{_PATTERNS[series.dash]}'/>"
        f"<g fill='currentColor'>{_OUTLINES[series.shape]}</g></svg>"
        f"<span>{escape(series.name)}</span></button>"
    )
