"""What protocols share: columns of outcomes, the judge of claims, published tables beside ours, words for numbers."""
