"""HTML and SVG elements whose text is always escaped: run names and model output never become markup."""

from __future__ import annotations

import html
from collections.abc import Iterable

_VOID = {"meta", "br", "hr", "path", "line", "rect", "circle", "polyline", "col"}


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


def element(name: str, /, *children: object, **attributes: object) -> Html:
    """An element; children are escaped unless they are Html, lists of children are flattened, None is left out.

    Attribute names lose a trailing underscore (``class_``) and turn inner ones into hyphens (``stroke_width``);
    a value of None or False leaves the attribute out, True writes it without a value.
    """
    opening = "".join([name, *(_attribute(key, value) for key, value in attributes.items())])
    if name in _VOID and not children:
        return Html(f"<{opening}/>")
    return Html(f"<{opening}>{join(children)}</{name}>")


def join(children: Iterable[object]) -> Html:
    """Escape and concatenate children; lists are flattened, None is left out."""
    return Html("".join(_child(child) for child in children))


def _child(child: object) -> str:
    if child is None:
        return ""
    if isinstance(child, Html):
        return str(child)
    if isinstance(child, (list, tuple)):
        return str(join(child))
    return html.escape(str(child), quote=False)


def _attribute(key: str, value: object) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    if name == "viewbox":
        name = "viewBox"
    return f" {name}" if value is True else f' {name}="{html.escape(str(value), quote=True)}"'
