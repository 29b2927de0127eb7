"""Drawings of small graphs: boxes in columns, curves between them, as SVG that needs no browser to be made."""

from omnigraph.engine.results.drawing.boxes import Box, Link, Picture
from omnigraph.engine.results.drawing.networks import MAX_DRAWN, picture_of_network
from omnigraph.engine.results.drawing.svg import draw_svg

__all__ = ["MAX_DRAWN", "Box", "Link", "Picture", "draw_svg", "picture_of_network"]
