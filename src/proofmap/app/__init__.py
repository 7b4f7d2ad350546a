"""``proofmap serve``: a page on which anyone can try proofs, and the JSON API behind it. Needs the extra ``app``.

One thread does all work on nets (:mod:`proofmap.app.jobs`). Requests are answered from memory or put in that thread's queue.
"""
