// Package figures draws charts and tables; equal input gives equal files.
package figures

import (
	"errors"
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Series is one line of a Chart, or one set of bars. Points that are not finite are left out.
type Series struct {
	Name   string
	X, Y   []float64
	Dashed bool // drawn broken, for published or predicted figures beside measured ones
}

// Chart is a set of lines over two axes.
type Chart struct {
	Title, X, Y string
	LogX, LogY  bool
	Steps       bool // lines without marks, for distributions
	Near        bool // the axis of values is about those there are, and not from 0 on
	Series      []Series
}

// Add appends a point to the series of that name, which is made on first use.
func (c *Chart) Add(series string, x, y float64) {
	i := slices.IndexFunc(c.Series, func(s Series) bool { return s.Name == series })
	if i < 0 {
		i = len(c.Series)
		c.Series = append(c.Series, Series{Name: series})
	}
	c.Series[i].X = append(c.Series[i].X, x)
	c.Series[i].Y = append(c.Series[i].Y, y)
}

// AddDashed is Add to a series that is drawn broken, in the colour of the series whose name it
// begins with up to a comma, if there is one.
func (c *Chart) AddDashed(series string, x, y float64) {
	c.Add(series, x, y)
	c.Series[slices.IndexFunc(c.Series, func(s Series) bool { return s.Name == series })].Dashed = true
}

// seriesColour is that of series i: solid ones take them in turn, a dashed one that of the series named by
// the part of its name before the comma.
func (c *Chart) seriesColour(i int) color.Color {
	name, _, _ := strings.Cut(c.Series[i].Name, ",")
	solid := 0
	for j, s := range c.Series {
		if j == i || (c.Series[i].Dashed && s.Name == name) {
			break
		}
		if !s.Dashed {
			solid++
		}
	}
	return palette[solid%len(palette)]
}

// palette is Okabe and Ito's, which colour-blind readers can tell apart.
var palette = []color.Color{
	color.RGBA{R: 0, G: 114, B: 178, A: 255}, color.RGBA{R: 213, G: 94, B: 0, A: 255}, color.RGBA{R: 0, G: 158, B: 115, A: 255},
	color.RGBA{R: 204, G: 121, B: 167, A: 255}, color.RGBA{R: 230, G: 159, B: 0, A: 255}, color.RGBA{R: 86, G: 180, B: 233, A: 255},
	color.RGBA{R: 0, G: 0, B: 0, A: 255}, color.RGBA{R: 148, G: 148, B: 148, A: 255},
}

const (
	width       = 20 * vg.Centimeter
	height      = 10 * vg.Centimeter
	legendWidth = 6 * vg.Centimeter
)

// Write draws the chart to a file; the name's ending (.svg or .png) sets the format.
func (c *Chart) Write(path string) error {
	p, legend, err := c.plotSeries()
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return savePlot(p, legend, path)
}

// SVG is the chart as an element of a page.
func (c *Chart) SVG() (string, error) {
	p, legend, err := c.plotSeries()
	if err != nil {
		return "", err
	}
	canvas, err := drawPlot(p, legend, "svg")
	if err != nil {
		return "", err
	}
	var out strings.Builder
	if _, err := canvas.WriteTo(&out); err != nil {
		return "", err
	}
	_, element, _ := strings.Cut(out.String(), "<svg")
	return "<svg" + element, nil
}

func (c *Chart) plotSeries() (*plot.Plot, *plot.Legend, error) {
	p, legend := newPlot(c.Title, c.X, c.Y)
	if c.LogX {
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	}
	if c.LogY {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	} else if !c.Near {
		p.Y.Min = 0
	}
	drawn := 0
	for i, s := range c.Series {
		points := c.seriesPoints(s)
		if len(points) == 0 {
			continue
		}
		line, marks, err := plotter.NewLinePoints(points)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", s.Name, err)
		}
		line.Color, line.Width = c.seriesColour(i), vg.Points(1.5)
		marks.Color, marks.Shape, marks.Radius = line.Color, draw.CircleGlyph{}, vg.Points(2.5)
		if i >= len(palette) { // its colour has been used
			marks.Shape, marks.Radius, line.Width = draw.TriangleGlyph{}, vg.Points(4), vg.Points(0.75)
		}
		if s.Dashed {
			line.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
		}
		p.Add(line)
		if c.Steps {
			legend.Add(s.Name, line)
		} else {
			p.Add(marks)
			legend.Add(s.Name, line, marks)
		}
		drawn++
	}
	if drawn == 0 {
		return nil, nil, errors.New("no points to draw")
	}
	if c.LogX {
		widenAxisRange(&p.X)
	}
	if c.LogY {
		widenAxisRange(&p.Y)
	}
	return p, legend, nil
}

// widenAxisRange gives an axis of one value a range, which for logarithms has to stay above 0.
func widenAxisRange(a *plot.Axis) {
	if a.Min == a.Max {
		a.Min, a.Max = a.Min/2, a.Max*2
	}
}

func (c *Chart) seriesPoints(s Series) plotter.XYs {
	var points plotter.XYs
	for i := range s.X {
		x, y := s.X[i], s.Y[i]
		if isFinite(x) && isFinite(y) && (!c.LogX || x > 0) && (!c.LogY || y > 0) {
			points = append(points, plotter.XY{X: x, Y: y})
		}
	}
	return points
}

func isFinite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// Bars is a chart of groups of bars: Y[i] of each series stands at Groups[i].
type Bars struct {
	Title, Y string
	Groups   []string
	Series   []Series
}

// Write draws the bars to a .svg or .png file.
func (b Bars) Write(path string) error {
	p, legend := newPlot(b.Title, "", b.Y)
	p.Y.Min = 0
	p.NominalX(b.Groups...)
	label := &p.X.Tick.Label // slanted, so that long names do not meet
	label.Rotation, label.XAlign, label.YAlign, label.Font.Size = 0.3, draw.XRight, draw.YTop, vg.Points(9)
	each := (width - legendWidth) * 0.7 / vg.Length(len(b.Groups)*max(1, len(b.Series)))
	for i, s := range b.Series {
		values := make(plotter.Values, len(s.Y))
		for j, y := range s.Y {
			if isFinite(y) {
				values[j] = y
			}
		}
		bars, err := plotter.NewBarChart(values, each)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", path, s.Name, err)
		}
		bars.Color, bars.LineStyle.Width = palette[i%len(palette)], 0
		bars.Offset = each * (vg.Length(i) - vg.Length(len(b.Series)-1)/2)
		p.Add(bars)
		legend.Add(s.Name, bars)
	}
	return savePlot(p, legend, path)
}

// newPlot also makes the legend, which stands beside the plot: in it, it would hide lines.
func newPlot(title, x, y string) (*plot.Plot, *plot.Legend) {
	p, legend := plot.New(), plot.NewLegend()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.Padding = vg.Points(6)
	p.BackgroundColor = color.White
	grid := plotter.NewGrid()
	grid.Horizontal.Color = color.Gray{Y: 225}
	grid.Vertical.Color = color.Gray{Y: 240}
	p.Add(grid)
	legend.Top, legend.Left, legend.YPosition = true, true, draw.PosCenter
	legend.TextStyle.Font.Size = vg.Points(9)
	legend.Padding = vg.Points(3)
	return p, &legend
}

func savePlot(p *plot.Plot, legend *plot.Legend, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	canvas, err := drawPlot(p, legend, strings.TrimPrefix(filepath.Ext(path), "."))
	if err != nil {
		return fmt.Errorf("draw %s: %w", path, err)
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = canvas.WriteTo(file)
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("draw %s: %w", path, err)
	}
	return nil
}

// drawPlot draws a plot in a format.
func drawPlot(p *plot.Plot, legend *plot.Legend, format string) (vg.CanvasWriterTo, error) {
	canvas, err := draw.NewFormattedCanvas(width, height, format)
	if err != nil {
		return nil, err
	}
	all := draw.New(canvas)
	all.SetColor(color.White)
	all.Fill(all.Rectangle.Path())
	p.Draw(draw.Crop(all, 0, -legendWidth, 0, 0))
	legend.Draw(draw.Crop(all, width-legendWidth+vg.Points(8), 0, 0, -vg.Points(24)))
	return canvas, nil
}
