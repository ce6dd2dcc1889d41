package figures

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"
)

// Table is rows of cells under a header; every row is as wide as the header.
type Table struct {
	Header []string
	Rows   [][]string
}

// Add appends a row; numbers are written with four significant digits, NaN as nothing, everything
// else as it prints.
func (t *Table) Add(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		switch f, ok := c.(float64); {
		case !ok:
			row[i] = fmt.Sprint(c)
		case !math.IsNaN(f):
			row[i] = fmt.Sprintf("%.4g", f)
		}
	}
	t.Rows = append(t.Rows, row)
}

// CSV writes the table as comma-separated values.
func (t *Table) CSV(w io.Writer) error {
	return csv.NewWriter(w).WriteAll(append([][]string{t.Header}, t.Rows...))
}

// Markdown is the table in Markdown, its columns aligned.
func (t *Table) Markdown() string {
	widths := make([]int, len(t.Header))
	for _, row := range append([][]string{t.Header}, t.Rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell), 3)
		}
	}
	var b strings.Builder
	line := func(row []string) {
		for i, cell := range row {
			fmt.Fprintf(&b, "| %s%s ", cell, strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)))
		}
		b.WriteString("|\n")
	}
	line(t.Header)
	for _, w := range widths {
		b.WriteString("|" + strings.Repeat("-", w+2))
	}
	b.WriteString("|\n")
	for _, row := range t.Rows {
		line(row)
	}
	return b.String()
}
