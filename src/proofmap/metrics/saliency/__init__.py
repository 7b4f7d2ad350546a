"""The saliency metric of Dabkowski and Gal: the box around a map's thresholded part, and what the net makes of it."""
