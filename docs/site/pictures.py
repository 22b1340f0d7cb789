"""Makes the pictures in docs/pictures: `make pictures`.

    python docs/site/pictures.py REPORT.html

`top.svg` is `offsetlog top` beside a server under load; rich draws it. `report.png` is the upper part of a report of
`offsetlog spark audit`, in Chromium; without Chromium the old picture stays.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from PIL import Image
from rich.console import Console

from offsetlog.cli.top.live import Observer, drawn

ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / "docs" / "pictures"
COLUMNS = 90
LOAD_SECONDS = 4.0
GROUPS = ("billing", "audit", "mailer")
#: The largest size of a picture in the repository, in bytes.
BYTES_MAX = 200 * 1024
REPORT_PIXELS = (1100, 896)
COLOURS = 64


def main(report: str) -> int:
    """Makes both pictures; returns an exit code."""
    PICTURES.mkdir(exist_ok=True)
    top(PICTURES / "top.svg")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        print("offsetlog: there is no Chromium: report.png stays; on Debian: apt install chromium", file=sys.stderr)
    else:
        page(chromium, Path(report).resolve(), PICTURES / "report.png")
    large = [path.name for path in PICTURES.iterdir() if path.stat().st_size > BYTES_MAX]
    if large:
        print(f"offsetlog: larger than {BYTES_MAX} bytes: {', '.join(large)}", file=sys.stderr)
    return 1 if large else 0


def top(target: Path) -> None:
    """Draws `offsetlog top` beside a server that a few consumers commit to."""
    anywhere = "127.0.0.1:0"
    command = [sys.executable, "-m", "offsetlog", "serve", "data", "--listen", anywhere, "--metrics", anywhere]
    with tempfile.TemporaryDirectory() as folder:
        served = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
        try:
            assert served.stdout is not None
            addresses: list[str] = []
            while len(addresses) < 2:
                addresses += re.findall(r"127\.0\.0\.1:\d+", served.stdout.readline())
            target.write_text(picture_of(*addresses), encoding="utf-8")
        finally:
            served.terminate()
            served.wait()


def picture_of(server: str, metrics: str) -> str:
    """Returns the picture of a server under load, as SVG without fonts from elsewhere."""
    producer = Producer({"bootstrap.servers": server})
    producer.produce("orders", b"first")
    producer.flush()
    # The consumers, and this thread: it looks when each has its partition.
    ready, stop = threading.Barrier(len(GROUPS) + 1), threading.Event()
    load = [threading.Thread(target=commit_until, args=(ready, stop, server, group)) for group in GROUPS]
    for each in load:
        each.start()
    ready.wait()
    observer = Observer(server, metrics, len(GROUPS))
    observer.look()
    time.sleep(LOAD_SECONDS)
    frame = observer.look()
    observer.close()
    stop.set()
    for each in load:
        each.join()
    console = Console(file=io.StringIO(), record=True, width=COLUMNS)
    # The addresses of the manual, in place of the free ports of this run.
    shown = frame._replace(lines=[frame.lines[0].replace(server, "127.0.0.1:9092"), *frame.lines[1:]])
    console.print(drawn(shown))
    svg = console.export_svg(title="offsetlog top 127.0.0.1:9092 --metrics 127.0.0.1:9093", unique_id="top")
    return re.sub(r"@font-face \{.*?\}\s*|<!--.*?-->\s*", "", svg, flags=re.DOTALL)


def commit_until(ready: threading.Barrier, stop: threading.Event, server: str, group: str) -> None:
    """Commits as the only consumer of a group, from when all have joined until it is stopped."""
    consumer = Consumer({"bootstrap.servers": server, "group.id": group, "client.id": f"{group}-1"})
    consumer.subscribe(["orders"])
    while not consumer.assignment():
        consumer.poll(0.1)
    ready.wait()
    offset = 0
    while not stop.is_set():
        offset += 1
        consumer.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)
    consumer.close()


def page(chromium: str, source: Path, target: Path) -> None:
    """Takes the picture of a page, with few colours so that it stays small."""
    width, height = REPORT_PIXELS
    with tempfile.TemporaryDirectory() as folder:
        # A path of the machine on which the picture is made is not for readers.
        shown, shot = Path(folder) / "report.html", Path(folder) / "shot.png"
        text = source.read_text(encoding="utf-8")
        shown.write_text(re.sub(rf"{re.escape(str(ROOT))}[\w./-]*", "/var/kafka-logs", text), encoding="utf-8")
        size = f"--window-size={width},{height}"
        command = [chromium, "--headless", "--hide-scrollbars", size, f"--screenshot={shot}"]
        if os.geteuid() == 0:
            command.append("--no-sandbox")
        subprocess.run(
            [*command, f"--user-data-dir={folder}/profile", shown.as_uri()],
            check=True,
            stderr=subprocess.DEVNULL,
            timeout=120,
        )
        with Image.open(shot) as taken:
            taken.convert("RGB").quantize(COLOURS).save(target, optimize=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
