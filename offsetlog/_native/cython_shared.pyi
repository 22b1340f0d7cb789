# Code that Cython would repeat in each extension: they import this module, and nothing else does.
