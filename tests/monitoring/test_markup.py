"""Markup: whatever a text or an attribute holds, it stays text."""

from __future__ import annotations

from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from neox_train.monitoring.markup import Html, element, join


def test_children_and_attributes_are_escaped():
    shown = element("b", "<i>&", class_='a"b', aria_label="x<y")
    assert shown == '<b class="a&quot;b" aria-label="x&lt;y">&lt;i&gt;&amp;</b>'


def test_markup_lists_and_nothing():
    assert join([Html("<hr/>"), ["a", [element("i", "b")]], None, 3]) == "<hr/>a<i>b</i>3"
    assert element("line", x1=1, hidden=True, title=None, open=False) == '<line x1="1" hidden/>'


class Collector(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, list[tuple[str, str | None]]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, attrs))

    def handle_data(self, data: str) -> None:
        self.text += data


@given(st.text(st.characters(exclude_categories=("Cs", "Cc"))))
def test_any_text_comes_back_as_text(text: str):
    parser = Collector()
    parser.feed(element("p", text, title=text))
    parser.close()
    assert parser.tags == [("p", [("title", text)])]
    assert parser.text == text
