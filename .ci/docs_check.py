"""Look at the built site as a reader does: `docs_check.py SITE SCREENSHOTS`.

Every page's links, anchors and images must exist, and nothing may load from another host.
No formula may stand in code type or in plain text. Then headless Chromium opens every page
from a server on loopback. An error in the console, a request to another host, a page wider
than the screen or a clipped table ends the check with a message. Pages of each kind are saved
as pictures: narrow and wide, light and dark.

It needs Debian's packages chromium and chromium-driver.
"""

import functools
import html.parser
import http.server
import json
import re
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars",
)  # fmt: skip
SIZES = {"wide": (1440, 1000), "narrow": (390, 844)}
SCHEMES = ("light", "dark")
KINDS = {
    "index": "index.html",
    "gallery": "gallery.html",
    "tutorials": "tutorials/index.html",
    "tutorial": "tutorials/[0-9]*.html",
    "how-to": "how-to/add-a-rule.html",
    "did-it-work": "how-to/did-it-work.html",
    "definitions": "reference/definitions.html",
    "rules": "reference/rules.html",
    "api": "reference/api/simulate.html",
    "command-line": "reference/command-line.html",
    "errors": "reference/errors.html",
    "results": "results/table1.html",
    "explanation": "explanation/allocations.html",
    "search": "search.html?q=elimination",
}
"""A page of each kind; a pattern stands for its first file, if there is one."""


FORMULA = re.compile(
    r"\|\|\w|\w\|\|"  # a norm
    r"|(?<![-\w])[A-Za-z]\w?\^-?[\w({]"  # a power
    r"|\b(?:theta|mu|i|p|beta)_hat\b|\b(?:sum|prod|max|min|argmax|argmin)_[a-z]\b"
    r"|\b(?:phi|mu|lambda|sigma|tau|N|H|w|m)_[a-zA-Z]\b(?![.(\[])"
    r"|\b(?:phi|theta|lambda|mu)\w* \. \w|\b[HTw]\*(?!\w)"
)
"""What only a formula has: in code type, or in plain text, it is one that was not typeset."""

VOID = ("area", "br", "col", "hr", "img", "input", "link", "meta", "source", "wbr")
NOT_PROSE = (
    r"math\b|h\d\b|script\b|dt sig|div .*(highlight-(ipython|python|pycon|sh|console|json|toml)"
    r"|cell_output|toctree)|svg\b|a .*headerlink|nav\b"
)
"""Elements with names of programs, printed output, and headings."""

CLIPPED = """
const wide = arguments[0];
return [...document.querySelectorAll("article table")].flatMap(table => {
  const box = table.closest(".table-wrapper, .cell_output .output") || table.parentElement;
  const over = Math.round(table.scrollWidth - box.clientWidth);
  const scrolls = ["auto", "scroll"].includes(getComputedStyle(box).overflowX);
  const cells = [...table.querySelectorAll("th, td")].filter(cell =>
    cell.scrollWidth > cell.clientWidth + 1);
  const words = table.textContent.trim().replace(/\s+/g, " ").slice(0, 40);
  if (over > 1 && (wide || !scrolls)) return [`a table ${over} pixels too wide: ${words}`];
  return cells.length ? [`a clipped cell: ${cells[0].textContent.trim().slice(0, 40)}`] : [];
});
"""
"""Tables wider than their box. On a small screen one may scroll in it, on a wide one it fits."""


class Page(html.parser.HTMLParser):
    """The anchors of a page, where it leads, what it loads, and formulas that are not typeset."""

    def __init__(self, text: str):
        super().__init__()
        self.inside: list[str] = []  # open elements whose text is looked at, or is not
        self.formulas: list[str] = []
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = {key: value or "" for key, value in attrs}
        self.anchors |= {known[key] for key in ("id", "name") if key in known}
        if tag == "a" and "href" in known:
            self.links.append(known["href"])
        if "src" in known:
            self.loaded.append(known["src"])
        if tag == "link" and known.get("rel") not in ("canonical", "next", "prev"):
            self.loaded.append(known.get("href", ""))
        classes = known.get("class", "")
        if self.inside or tag == "article":
            if tag not in VOID:
                self.inside.append(f"{tag} {classes}")

    def handle_endtag(self, tag: str) -> None:
        while self.inside and self.inside.pop().split()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        apart = any(re.match(NOT_PROSE, one) for one in self.inside)
        name = re.fullmatch(r"\s*[\w.]+( \(.*)?\s*", data)  # as in code and in the index
        found = FORMULA.search(data) if self.inside and not apart and not name else None
        if found:
            self.formulas.append(" ".join(data[max(0, found.start() - 20) :][:50].split()))


def broken(site: Path) -> Iterator[str]:
    """What is wrong with links and sources, a line each."""
    pages = {file: Page(file.read_text()) for file in sorted(site.rglob("*.html"))}
    count = 0
    for file, page in pages.items():
        name = file.relative_to(site)
        for address in page.loaded:
            if urlsplit(address).netloc:
                yield f"{name}: loads {address}"
        for address in (*page.links, *page.loaded):
            if urlsplit(address).scheme:
                continue
            count += 1
            path, anchor = urldefrag(address.split("?")[0])
            there = (file.parent / unquote(path)).resolve() if path else file
            if not there.exists():
                yield f"{name}: no {address}"
            elif anchor and there in pages and unquote(anchor) not in pages[there].anchors:
                yield f"{name}: no anchor {address}"
    for file, page in pages.items():
        for found in page.formulas:
            yield f"{file.relative_to(site)}: a formula that is not typeset: {found}"
    print(f"{len(pages)} pages, {count} links and sources inside the site")


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves a folder and prints nothing."""

    def log_message(self, format: str, *args: object) -> None:
        pass


def browser(profile: str) -> webdriver.Chrome:
    """A headless Chromium that keeps its console and its requests."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        sys.exit("docs check: install Debian's packages chromium and chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options, Service(driver))


def look(driver: webdriver.Chrome, address: str, size: str, scheme: str) -> Iterator[str]:
    """Open an address; what is wrong with it, a line each."""
    width, height = SIZES[size]
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    driver.get(address)
    page = f"{urlsplit(address).path} ({size}, {scheme})"
    for entry in driver.get_log("browser"):
        yield f"{page}: console {entry['level']}: {entry['message']}"
    for entry in driver.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            asked = urlsplit(message["params"]["request"]["url"])
            if asked.scheme in ("http", "https") and asked.hostname != "127.0.0.1":
                yield f"{page}: asks {asked.geturl()}"
    shown = driver.execute_script("return document.documentElement.scrollWidth")
    if shown > width:
        yield f"{page}: {shown} pixels wide on a screen of {width}"
    for found in driver.execute_script(CLIPPED, size == "wide"):
        yield f"{page}: {found}"


def looked_at(site: Path, pictures: Path) -> Iterator[str]:
    """Open every page, and save pictures of the kinds; what is wrong, a line each."""
    handler = functools.partial(Quiet, directory=str(site))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    home = f"http://127.0.0.1:{server.server_port}/"
    pictures.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as profile:
        driver = browser(profile)
        try:
            for file in sorted(site.rglob("*.html")):
                for size in SIZES:
                    yield from look(driver, f"{home}{file.relative_to(site)}", size, "light")
            for kind, pattern in KINDS.items():
                name, _, query = pattern.partition("?")
                found = sorted(site.glob(name))
                if not found:
                    print(f"no page {pattern}")
                    continue
                address = f"{home}{found[0].relative_to(site)}{'?' if query else ''}{query}"
                for size in SIZES:
                    for scheme in SCHEMES:
                        yield from look(driver, address, size, scheme)
                        driver.save_screenshot(str(pictures / f"{kind}-{size}-{scheme}.png"))
        finally:
            driver.quit()
            server.shutdown()
    print(f"{len(list(pictures.glob('*.png')))} pictures in {pictures}")


def main() -> None:
    site, pictures = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    found = [*broken(site), *looked_at(site, pictures)]
    if found:
        sys.exit("\n".join(found))
    print("docs check passed")


if __name__ == "__main__":
    main()
