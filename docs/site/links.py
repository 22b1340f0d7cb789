"""A hook of MkDocs: links of the pages, which are made for files on a disk, lead to pages of the site.

A page may link to any file of the repository, as `../CONTRIBUTING.md` or `../examples/broker.py`. MkDocs knows only
docs/. Each such file becomes a page below project/: Markdown as it is, any other text as one block of code.

The text of a link that is the name of a page becomes the title of that page: `[kafka.md](../kafka.md)`.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
FOLDER = "project"
LINK = re.compile(r"\[([^\]\n]*)\]\(([^)\s#:]+)(#[^)]*)?\)")
#: Pages of the navigation that need no link.
ALWAYS = ("CONTRIBUTING.md", "CHANGELOG.md")
LANGUAGES = {".py": "python", ".toml": "toml", ".properties": "properties"}


def on_files(files: Files, config: MkDocsConfig, **_: Any) -> Files:
    """Adds a page for each file outside docs/ that a page links to, and for those that these link to."""
    found: set[str] = set()
    waiting = [*ALWAYS, *(target for file in files.documentation_pages() for target in outside_of(name_of(file)))]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        files.append(page_of(name, config))
        waiting += outside_of(name)
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Rewrites the links of a page to and from files outside docs/."""
    name = name_of(page.file)
    here = PurePosixPath(page.file.src_uri).parent

    def rewritten(link: re.Match[str]) -> str:
        text, to, section = link[1], link[2], link[3] or ""
        target = target_of(name, to)
        if target is None:
            return link[0]
        if not (is_document(name) and is_document(target)):
            to = relative(source_of(target), here)
        if text.endswith(".md") and PurePosixPath(text).name == PurePosixPath(target).name and not section:
            text = title_of(target)
        return f"[{text}]({to}{section})"

    return LINK.sub(rewritten, markdown)


def outside_of(name: str) -> list[str]:
    """Returns the files outside docs/ that a Markdown file of the repository links to."""
    if not name.endswith(".md"):
        return []
    targets = (target_of(name, link[2]) for link in LINK.finditer((ROOT / name).read_text(encoding="utf-8")))
    return [target for target in targets if target is not None and not is_document(target)]


def target_of(name: str, link: str) -> str | None:
    """Returns the file, by its path in the repository, that a link of a file leads to; None where there is none."""
    path = ((ROOT / name).parent / link).resolve()
    return path.relative_to(ROOT).as_posix() if path.is_file() and path.is_relative_to(ROOT) else None


def title_of(name: str) -> str:
    """Returns the first heading of a page of the repository."""
    heading = re.search(r"^# (.+)$", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE)
    return heading[1] if heading else name


def is_document(name: str) -> bool:
    """Returns whether MkDocs knows a file without this hook."""
    return name.startswith("docs/")


def source_of(name: str) -> str:
    """Returns the path in the site's sources of a file of the repository."""
    if is_document(name):
        return name.removeprefix("docs/")
    return f"{FOLDER}/{name}" if name.endswith(".md") else f"{FOLDER}/{name}.md"


def name_of(file: File) -> str:
    """Returns the path in the repository of a page."""
    if file.generated_by is None:
        return f"docs/{file.src_uri}"
    name = file.src_uri.removeprefix(f"{FOLDER}/")
    return name if (ROOT / name).is_file() else name.removesuffix(".md")


def page_of(name: str, config: MkDocsConfig) -> File:
    """Returns the page of a file outside docs/."""
    if name.endswith(".md"):
        file = File.generated(config, source_of(name), abs_src_path=str(ROOT / name))
    else:
        code = (ROOT / name).read_text(encoding="utf-8")
        language = LANGUAGES.get(PurePosixPath(name).suffix, "text")
        content = f"# {name}\n\n````{language}\n{code}````\n"
        file = File.generated(config, source_of(name), content=content)
    return file


def relative(target: str, folder: PurePosixPath) -> str:
    """Returns a path of the site's sources as seen from one of its folders."""
    up = "../" * len([part for part in folder.parts if part != "."])
    return f"{up}{target}"
