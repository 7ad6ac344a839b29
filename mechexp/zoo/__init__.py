"""Small models of real architectures, trained by mechexp itself on its own tasks; they run offline.

``python -m mechexp.zoo train NAME`` trains one, ``python -m mechexp.zoo check`` verifies what is shipped.
"""
