"""The article's method against a search in running jobs."""

from __future__ import annotations

import argparse

from benchmarks import vs_article

#: The article's wall time over ours.
LEAST_RATIO = 30.0


def main(options: argparse.Namespace) -> bool:
    """Measure and print; True if the targets are met."""
    good = True
    for seed in range(options.seeds):
        article = None if options.article_s else vs_article.by_article(seed)
        article_s = article["search_s"] if article else options.article_s
        tuned = vs_article.by_tune(seed, "--live", "on")
        ratio = article_s / tuned["search_s"]
        good &= ratio >= LEAST_RATIO
        windows = f"{tuned['launches']} launches, {tuned['windows']} of them windows"
        print(f"seed {seed}: the search took {tuned['search_s']:.1f} s ({windows})")
        print(f"  best {tuned['best']}, said {tuned['said_s']:.2f} s; {tuned['verdict']}")
        words = "met" if ratio >= LEAST_RATIO else "MISSED"
        print(
            f"  article over live: {article_s:.0f} s / {tuned['search_s']:.1f} s = {ratio:.1f}"
            f" (>= {LEAST_RATIO:g}) {words}"
        )
        if article is not None:
            turn = vs_article.in_turn(article["best"], tuned["best"])
            good &= turn["high"] >= 1.0
            print(
                f"  re-measured, article over live: {turn['ratio']:.3f}"
                f" ({turn['low']:.3f} to {turn['high']:.3f}; not below 1)"
            )
            print(f"  in best launches: {tuned['search_s'] / turn['tune_wall_s']:.1f}")
    return good
