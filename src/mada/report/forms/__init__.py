"""The forms of a report: what is a value in `document` becomes Markdown, HTML, LaTeX, or text in a terminal."""
