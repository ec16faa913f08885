"""Figures: what each shows as a value, drawn for print by matplotlib and on the page by `assets/charts.js`."""
