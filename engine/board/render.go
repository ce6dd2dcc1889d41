package board

import (
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"strings"
	"text/tabwriter"
	texttemplate "text/template"

	"github.com/prefillonly/prefillonly/engine/wire"
)

//go:embed index.html now.html now.txt
var templates embed.FS

var (
	pages = template.Must(template.New("").Funcs(formats).ParseFS(templates, "*.html"))
	texts = texttemplate.Must(texttemplate.New("").Funcs(formats).ParseFS(templates, "*.txt"))
)

var formats = template.FuncMap{
	"json": func(points []*float64) (string, error) {
		text, err := json.Marshal(points)
		return string(text), err
	},
	"real":    formatReal,
	"ms":      func(x *float64) string { return formatKnown(x, "ms") },
	"percent": func(x *float64) string { return formatKnown(x, "%") },
	"bytes":   formatBytes,
	"reading": readingOf,
	"place":   func(p wire.PassPlace) string { return places[p] },
}

var places = [...]string{
	wire.PassRuns: "", wire.PassNested: "inside the one above", wire.PassPaused: "paused", wire.PassPreparing: "waits for its plan", wire.PassLowest: "when idle",
}

// Page writes the whole page.
func (f *Figures) Page(w io.Writer) error { return pages.ExecuteTemplate(w, "index.html", f) }

// Now writes the part of the page that changes.
func (f *Figures) Now(w io.Writer) error { return pages.ExecuteTemplate(w, "now", f) }

// Text writes the figures for a terminal, columns lined up by spaces.
func (f *Figures) Text(w io.Writer) error {
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if err := texts.ExecuteTemplate(columns, "now.txt", f); err != nil {
		return err
	}
	return columns.Flush()
}

func formatReal(x float64) string {
	if x >= 100 || x == 0 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.1f", x)
}

// formatKnown is a figure with its unit, if there is one.
func formatKnown(x *float64, unit string) string {
	if x == nil {
		return "–"
	}
	return formatReal(*x) + " " + unit
}

func formatBytes(n uint64) string {
	switch {
	case n == 0:
		return "–"
	case n < 1e9:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%.1f GB", float64(n)/1e9)
}

// named is what a reading of a GPU is called here.
type named struct{ Name, Unit string }

func readingOf(name string) *named {
	switch strings.TrimPrefix(name, "DCGM_FI_DEV_") {
	case "GPU_TEMP":
		return &named{"temperature", "°C"}
	case "POWER_USAGE":
		return &named{"power", "W"}
	case "GPU_UTIL":
		return &named{"busy", "%"}
	case "FB_USED":
		return &named{"memory", "MiB"}
	case "SM_CLOCK":
		return &named{"clock", "MHz"}
	case "XID_ERRORS":
		return &named{"last XID error", ""}
	}
	return nil
}
