"""Of what is written: C++, bindings, stubs, pages."""
