"""Speed and memory, side by side: what is compared, and how it is measured."""
