module github.com/prefillonly/prefillonly

go 1.26
