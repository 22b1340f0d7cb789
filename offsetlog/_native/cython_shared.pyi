# Code that Cython would repeat in each extension: the extensions import this module; other code must not.
