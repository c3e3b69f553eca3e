"""Where things stand in a TOML file: the line of each key, which `tomllib` does not tell. For text that it has read already."""

from __future__ import annotations

import re
import tomllib

Path = tuple[str, ...]
_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_KEY = re.compile(r"""[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*'""")
_TEXT = re.compile(r'"""(?:\\.|.)*?"{3,5}|' + r"'''.*?'{3,5}" + r"|\"(?:[^\"\\]|\\.)*\"|'[^']*'", re.DOTALL)
_PLAIN = re.compile(r"[^,\]}\n#]*")  # numbers, dates, true and false


def lines_of(text: str) -> dict[Path, int]:
    """By the path of each table and key, ("outputs", "lift", "noise"), the line on which it stands first."""
    return _Reader(text).lines


def line_of(lines: dict[Path, int], place: Path) -> int | None:
    """The line of a place, or of what it is in."""
    return next((lines[place[:size]] for size in range(len(place), 0, -1) if place[:size] in lines), None)


class _Reader:
    def __init__(self, text: str) -> None:
        self.text, self.at, self.lines = text, 0, dict[Path, int]()
        table: Path = ()
        while self._skip() < len(text):
            if text[self.at] == "[":
                self.at += 2 if text.startswith("[[", self.at) else 1
                table = self._key(())
                self.at = text.index("]", self.at) + 1
                self.at += text.startswith("]", self.at)
            else:
                self._pair(table)

    def _skip(self) -> int:
        """Over space and comments."""
        found = _BLANK.match(self.text, self.at)
        self.at = found.end() if found else self.at
        return self.at

    def _key(self, above: Path) -> Path:
        """A key, which may have dots, and each of its parts on its line."""
        path = above
        while True:
            self._skip()
            found = _KEY.match(self.text, self.at)
            if found is None:  # tomllib would have refused it
                return path
            part = found[0]
            path = (*path, next(iter(tomllib.loads(f"{part} = 0"))))
            self.lines.setdefault(path, self.text.count("\n", 0, self.at) + 1)
            self.at = found.end()
            if self.text[self._skip()] != ".":
                return path
            self.at += 1

    def _pair(self, table: Path) -> None:
        path = self._key(table)
        self.at = self.text.index("=", self.at) + 1
        self._value(path)

    def _value(self, path: Path) -> None:
        opened = self.text[self._skip()]
        if opened in "{[":
            self.at += 1
            while self.text[self._skip()] not in "}]":
                if self.text[self.at] == ",":
                    self.at += 1
                elif opened == "{":
                    self._pair(path)
                else:
                    self._value(path)
            self.at += 1
            return
        found = _TEXT.match(self.text, self.at) or _PLAIN.match(self.text, self.at)
        self.at = max(found.end() if found else 0, self.at + 1)
