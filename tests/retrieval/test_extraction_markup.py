"""Markdown and HTML: sections from headings, nothing lost, nothing that only machines read."""

from __future__ import annotations

import pytest

from retrieval.extraction import Extracted, ExtractionFailed
from retrieval.extraction.reading import read_document


def markdown(text: str) -> Extracted:
    return read_document(text.encode(), "text/markdown")


def html(text: str, encoding: str = "utf-8") -> Extracted:
    return read_document(text.encode(encoding), "text/html")


def outline(result: Extracted) -> list[tuple[str | None, str]]:
    return [(segment.section, segment.text) for segment in result.segments]


def test_markdown__with_headings__has_their_path_as_section():
    text = (
        "Intro.\n\n# Refunds\n\nMoney.\n\n## Returns by post\n\nPost.\n\nSetext\n======\n\nEnd.\n"
    )

    assert outline(markdown(text)) == [
        (None, "Intro."),
        ("Refunds", "Refunds\n\nMoney."),
        ("Refunds > Returns by post", "Returns by post\n\nPost."),
        ("Setext", "Setext\n\nEnd."),
    ]


def test_markdown__with_a_heading_without_text__keeps_its_words_with_the_next():
    text = "# Refunds\n\n## By post\n\nPost.\n\n## Empty\n\n## In person\n\nShop.\n"

    assert outline(markdown(text)) == [
        ("Refunds > By post", "Refunds\n\nBy post\n\nPost."),
        ("Refunds > Empty", "Empty"),
        ("Refunds > In person", "In person\n\nShop."),
    ]


@pytest.mark.parametrize(
    "head",
    [
        '---\ntitle: "Return an item"\nid: 36\ntags: [a, b]\n---\n',
        "---\nid: 36\ntitle: Return an item\n---\n",
        "+++\ntitle = 'Return an item'\n+++\n",
    ],
)
def test_markdown__with_front_matter__has_its_title_on_top_and_not_its_other_fields(head):
    result = markdown(head + "\nFree returns.\n\n## How {#how}\n\nBox it.\n")

    assert outline(result) == [
        ("Return an item", "Return an item\n\nFree returns."),
        ("Return an item > How", "How\n\nBox it."),
    ]


def test_markdown__whose_first_heading_repeats_the_title__has_it_once():
    result = markdown(
        "---\ntitle: Returns\ndescription: All about them.\n---\n# Returns\n\nText.\n"
    )

    assert outline(result) == [("Returns", "Returns\n\nAll about them.\n\nText.")]


def test_markdown__that_begins_with_a_rule__loses_nothing():
    assert outline(markdown("---\n\nAfter a rule, words.\n\n---\n\nMore.")) == [
        (None, "After a rule, words.\n\nMore.")
    ]


def test_markdown__with_marks__has_the_words_without_them():
    text = (
        "Go to the [store](https://shop.example/){.link-external} and *choose* **one**, "
        "see ![a green button](img/b.png) or `npm install`.\n"
        "Second line, 2 \\* 3, snake_case_name.{.note}\n"
    )

    assert outline(markdown(text)) == [
        (
            None,
            "Go to the store and choose one, see a green button or npm install. "
            "Second line, 2 * 3, snake_case_name.",
        )
    ]


def test_markdown__with_code__keeps_it_as_it_is():
    text = (
        "# Page\n\n```html\n<h1>Hello</h1>\n\n# no heading\n```\n\n"
        "Text.\n\n    indented <b>code</b>\n\nInline `<port>` and <your-name>.\n"
    )

    assert outline(markdown(text)) == [
        (
            "Page",
            "Page\n\n```html\n<h1>Hello</h1>\n\n# no heading\n```\n\nText.\n\n"
            "```\nindented <b>code</b>\n```\n\nInline <port> and <your-name>.",
        )
    ]


def test_markdown__with_lists__keeps_marks_and_depth():
    text = "1. First\n\n   More of it\n2. Second\n   - inner\n     ```\n     code\n     ```\n\n* star\n"

    assert outline(markdown(text)) == [
        (
            None,
            "1. First\n   More of it\n2. Second\n  - inner\n    ```\n    code\n    ```\n\n- star",
        )
    ]


def test_markdown__with_a_table__keeps_its_rows():
    text = "| Plan | Price |\n|------|:-----:|\n| *Basic* | 5 \\| 6 |\n| Pro | |\n"

    assert outline(markdown(text)) == [
        (None, "| Plan | Price |\n| --- | --- |\n| Basic | 5 \\| 6 |\n| Pro |  |")
    ]


def test_markdown__with_an_html_table_with_gaps__keeps_it_readable():
    text = (
        "Before.\n\n<table>\n  <tr>\n    <th>Board</th>\n    <th>Pin</th>\n\n  </tr>\n\n"
        "    <tr><td>Nano</td>\n\n<td>RST<br>REF</td></tr>\n</table>\n\nAfter *it*.\n"
    )

    assert outline(markdown(text)) == [
        (None, "Before.\n\n| Board | Pin |\n| --- | --- |\n| Nano | RST REF |\n\nAfter it.")
    ]


def test_markdown__with_other_html__reads_it_and_drops_comments():
    text = (
        "<details>\n<summary>More</summary>\n\nHidden *words*.\n\n</details>\n\n"
        "Press <kbd>Ctrl</kbd>.<!-- secret -->\n\n<!-- note -->\n\n<h2>By HTML</h2>\n\nText.\n"
    )

    assert outline(markdown(text)) == [
        (None, "More\n\nHidden words.\n\nPress Ctrl."),
        ("By HTML", "By HTML\n\nText."),
    ]


def test_markdown__with_a_callout_and_a_footnote__keeps_both():
    text = "> [!NOTE]\n> Read this.[^1]\n\n[^1]: https://example.org/\n"

    assert outline(markdown(text)) == [(None, "Note:\nRead this.[^1]\n\n[^1] https://example.org/")]


def test_markdown__that_is_long__is_the_same_as_in_parts():
    part = (
        "## Part {}\n\n"
        + f"Some *words* here. {'long ' * 100}\n\n" * 100
        + "```\n# no heading\n```\n\n"
    )
    parts = [part.format(number) for number in range(12)]

    whole = outline(markdown("# Top\n\n" + "".join(parts)))

    assert whole[0][1].startswith("Top\n\nPart 0\n\nSome words here.")
    assert [section for section, _ in whole] == [f"Top > Part {n}" for n in range(12)]
    assert all(text.count("Some words here.") == 100 for _, text in whole)
    assert all(text.endswith("```\n# no heading\n```") for _, text in whole)


def test_markdown__with_a_table_longer_than_a_part__keeps_every_row_under_its_header():
    rows = [f"| {number} | `a|b` *x* | [l] {'word ' * 9} |" for number in range(15_000)]
    table = "\n".join(["| Id | Code | Text |", "|---|:-:|---|", *rows])

    ((_, text),) = outline(markdown(f"Before.\n{table}\n\nAfter. {'x' * 400}\n\n[l]: /to\n"))

    head = "| Id | Code | Text |\n| --- | --- | --- |\n"
    first, *tables, last = text.split("\n\n")
    assert first == "Before."
    assert last.startswith("After. xxx")
    assert len(tables) > 1
    assert all(table.startswith(head) for table in tables)
    read = [line for table in tables for line in table.removeprefix(head).split("\n")]
    assert [line.split(" |")[0] for line in read] == [f"| {number}" for number in range(15_000)]


@pytest.mark.parametrize("gap", ["\n", "\n\n"])
def test_markdown__with_a_list_longer_than_a_part__keeps_every_item(gap: str):
    items = [f"- item {number}\n  - *inner* {'word ' * 5}" for number in range(20_000)]

    ((_, text),) = outline(markdown(gap.join(items)))

    lines = [line for line in text.split("\n") if line]
    assert lines[::2] == [f"- item {number}" for number in range(20_000)]
    assert set(lines[1::2]) == {f"  - inner {'word ' * 5}".rstrip()}


def test_markdown__with_lines_like_a_tables_in_long_code__leaves_them():
    code = "| a | b |\n|---|---|\n" + "| 1 | 2 |\n- x\n" * 40_000

    assert outline(markdown(f"```\n{code}```\n")) == [(None, f"```\n{code}```")]


@pytest.mark.parametrize("mark", ["> ", "- "])
def test_markdown__with_an_html_table_of_many_columns_inside__has_all_of_it(mark: str):
    head = "".join(f"<th>{number}" for number in range(50))

    ((_, text),) = outline(markdown(f"{mark}<table><tr>{head}<tr><td>first</table>\n"))

    assert text.startswith(f"{mark.strip('> ')} | 0 | 1 |".strip())
    assert "| 49 |" in text
    assert "first" in text


@pytest.mark.parametrize(
    "nested", ["> " * 100 + "deep", "".join(f"{'  ' * depth}- deep\n" for depth in range(51))]
)
def test_markdown__nested_beyond_the_deepest_level__fails_instead_of_losing_text(nested: str):
    with pytest.raises(ExtractionFailed) as failure:
        markdown(f"Before.\n\n{nested}\n\nAfter.")

    assert failure.value.sentence == "The document is nested too deeply to be read."


@pytest.mark.parametrize(
    "nested", ["> " * 99 + "deep", "".join(f"{'  ' * depth}- deep\n" for depth in range(49))]
)
def test_markdown__nested_to_the_deepest_level__is_read(nested: str):
    [segment] = markdown(f"Before.\n\n{nested}\n\nAfter.").segments

    assert segment.text.count("deep") == nested.count("deep")


def test_html__with_headings__has_their_path_as_section():
    page = (
        "<html><head><title>Shop</title><style>p{}</style></head><body><h1>Refunds</h1><p>Money "
        "<b>back</b>.<h2>By <i>post</i><a class=headerlink href=#x>¶</a></h2><p>Post.</body></html>"
    )

    assert outline(html(page)) == [
        ("Refunds", "Refunds\n\nMoney back."),
        ("Refunds > By post", "By post\n\nPost."),
    ]


def test_html__without_a_main_heading__has_its_title_on_top():
    page = "<title>Returns</title><p>Free.</p><h2>Where</h2><p>Here.</p>"

    assert outline(html(page)) == [
        ("Returns", "Returns\n\nFree."),
        ("Returns > Where", "Where\n\nHere."),
    ]


@pytest.mark.parametrize(
    "hidden",
    [
        "<script>var secret = 1</script>",
        "<style>.secret{}</style>",
        "<noscript>secret</noscript>",
        "<template><p>secret</p></template>",
        "<!-- secret -->",
        "<div hidden>secret<p>secret</p></div>",
        '<span style="color:red; display: none">secret</span>',
        '<p style="visibility:hidden">secret</p>',
        "<nav><ul><li>secret</ul></nav>",
        '<div role="navigation">secret</div>',
        "<svg><title>secret</title></svg>",
        '<input type=hidden value="secret">',
        "<select><option>secret</select>",
    ],
)
def test_html__with_something_that_visitors_do_not_see__leaves_just_that_out(hidden):
    result = html(f"<body><p>Before {hidden} after.</p><p>End.</p></body>")

    text = " ".join(" ".join(s.text for s in result.segments).split())
    assert "secret" not in text
    assert text in ("Before after. End.", "Before after. End")


def test_html__that_is_nothing_but_a_menu__keeps_the_menu():
    assert outline(html("<nav><a href=/a>About us</a></nav>")) == [(None, "About us")]


def test_html__with_blocks__separates_them_and_keeps_lines():
    page = (
        "<div>One<div>Two</div>Three</div><p>a<br>b</p><ul><li>x<ul><li>y</ul><li><p>z</ul>"
        "<ol start=3><li>c<li>d</ol><pre>  def f():\n    pass</pre><blockquote>Q</blockquote>"
        "<dl><dt>Term<dd>Meaning</dl><button>Ask</button><details><summary>S</summary>D</details>"
    )

    assert outline(html(page)) == [
        (
            None,
            "One\n\nTwo\n\nThree\n\na\nb\n\n- x\n  - y\n- z\n\n3. c\n4. d\n\n"
            "```\n  def f():\n    pass\n```\n\nQ\n\nTerm\n- Meaning\n\nAsk\n\nS\n\nD",
        )
    ]


def test_html__with_tables__keeps_rows_and_dissolves_layout():
    page = (
        "<table><tr><td><h2>Left</h2><p>Text.</td><td><table><caption>Prices</caption>"
        "<tr><th>Plan<th>&nbsp;<th>Price<tr><td>Basic<td><td>5 <sup>€</sup>"
        "<tr style='display:none'><td>secret</table></td></tr></table>"
    )

    assert outline(html(page)) == [
        ("Left", "Left\n\nText.\n\nPrices\n| Plan | Price |\n| --- | --- |\n| Basic | 5 € |")
    ]


@pytest.mark.parametrize(
    ("declaration", "encoding"),
    [
        ('<meta charset="iso-8859-1">', "cp1252"),
        ('<meta http-equiv="Content-Type" content="text/html; charset=windows-1251">', "cp1251"),
        ('<?xml version="1.0" encoding="Shift_JIS"?>', "cp932"),
        ("<meta charset=gb2312>", "gb18030"),
        ("<meta charset=utf-16>", "utf-8"),
        ("<meta charset=latin1>", "utf-8"),
        ("", "utf-8-sig"),
        ("", "utf-16"),
    ],
)
def test_html__in_an_encoding__is_read_by_it(declaration, encoding):
    words = {
        "cp1251": "Возврат товара",
        "cp932": "返品ポリシー",
        "gb18030": "退货政策",
        "cp1252": "Größe – „5 €“",
    }.get(encoding, "Größe 返品 Возврат")

    result = html(f"{declaration}<html><body><p>{words}</p></body></html>", encoding)

    assert outline(result) == [(None, words)]


def test_html__with_an_article_in_a_table_cell__keeps_its_paragraphs():
    article = "<br><br>".join(f"Paragraph {n} of an article in a frame of old." for n in range(60))

    [(_, text)] = outline(html(f"<table><tr><td>Menu</td><td>{article}</td></tr></table>"))

    assert "Paragraph 0 of an article in a frame of old.\n\nParagraph 1" in text
    assert "|" not in text


def test_html__with_cells_that_span__keeps_every_cell_in_its_column():
    page = (
        "<table><tr><th rowspan=2>Country<th colspan=2>Days<tr><th>Post<th>Shop"
        "<tr><td rowspan=2>Germany<td>5<td>2<tr><td>6<td>3<tr><td colspan=3>Others: ask</table>"
    )

    assert outline(html(page)) == [
        (
            None,
            "| Country | Days |  |\n| --- | --- | --- |\n|  | Post | Shop |\n"
            "| Germany | 5 | 2 |\n|  | 6 | 3 |\n| Others: ask |  |  |",
        )
    ]


def test_html__with_spans_beyond_all_bounds__stays_small():
    rows = "<tr><td colspan=999999999 rowspan=999999999>x<td>y" * 100

    [(_, text)] = outline(html(f"<table>{rows}</table>"))

    assert text.count("x") == 100
    assert len(text) < 2_000_000


def test_html__with_pronunciations_beside_words__keeps_the_words_whole():
    page = "<p><ruby>返<rp>(</rp><rt>へん</rt>品<rt>ぴん</rt></ruby>できます</p>"

    assert outline(html(page)) == [(None, "返品できます")]


def test_html__with_frames__has_what_stands_there_for_those_without():
    page = "<frameset><frame src=a><noframes><body><h1>Returns</h1><p>Free.</body></noframes>"

    assert outline(html(page)) == [("Returns", "Returns\n\nFree.")]
