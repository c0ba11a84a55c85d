"""`Remembered`: what a server has answered, on disk, by the content of the question. Nothing is asked twice."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import threading
from pathlib import Path
from typing import Any

from karat.kernel.errors import BadInput


def default_folder() -> Path:
    """Where programs keep what they could get again."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "karat" / "served"


def content(question: dict[str, Any]) -> str:
    """The name of a question: the digest of all of it, image included."""
    return hashlib.sha256(json.dumps(question, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


class Remembered:
    """Answers by the content of their question, for many threads and processes at once.

    Each has the tokens that it cost. A process that is killed loses nothing that was put here before.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self._lock = threading.Lock()
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(file, timeout=60, check_same_thread=False, isolation_level=None)
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute(
                "CREATE TABLE IF NOT EXISTS answers (question TEXT PRIMARY KEY, answer TEXT NOT NULL, tokens INTEGER)"
            )
        except (OSError, sqlite3.Error) as error:
            raise BadInput(
                f"cannot keep a server's answers in {file}: {error}. Name another folder with `memory`."
            ) from None

    def get(self, question: str) -> Any | None:
        with self._lock:
            row = self._connection.execute("SELECT answer FROM answers WHERE question = ?", (question,)).fetchone()
        return None if row is None else json.loads(row[0])

    def put(self, question: str, answer: Any, tokens: int) -> None:
        row = (question, json.dumps(answer, ensure_ascii=False), tokens)
        with self._lock:
            self._connection.execute("INSERT OR REPLACE INTO answers VALUES (?, ?, ?)", row)

    def spent(self) -> tuple[int, int]:
        """Answers so far, and the tokens they cost."""
        with self._lock:
            row = self._connection.execute("SELECT COUNT(*), COALESCE(SUM(tokens), 0) FROM answers").fetchone()
        return int(row[0]), int(row[1])

    def close(self) -> None:
        with self._lock:
            self._connection.close()
