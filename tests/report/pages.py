"""Pages of a report by their address, and what is true of each when it is drawn."""

BOARD = "document.querySelector('#leaderboard tbody tr')"
CARDS = "document.querySelectorAll('.card').length > 3"
PAGES = {
    "overview": BOARD,
    "findings": "document.querySelector('#page-findings .chart')",
    "slices?key=depth": "document.querySelector('#page-slices tbody tr')",
    "samples": "document.querySelectorAll('.matrix td').length > 3",
    "samples?layout=one": CARDS,
    "about": "document.querySelector('#page-about tbody tr')",
}
