package inspect

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Alike is tensors of one type and shape whose names differ in the number of a layer alone.
type Alike struct {
	Names string // the number as ranges, such as model.layers.0-22,24.mlp.up_proj.weight
	Type  string
	Shape []int
	Count int
	Bytes int64 // of all
}

// number is a layer's in a tensor's name.
var number = regexp.MustCompile(`\.\d+\.`)

// Group puts tensors together that are alike, in the order of their first ones.
func Group(tensors []Tensor) []Alike {
	type group struct {
		Alike
		before, after string
		numbers       []int
	}
	var groups []*group
	byForm := map[string]*group{}
	for _, t := range tensors {
		before, after, n := cutLayerNumber(t.Name)
		key := fmt.Sprint(before, "\x00", after, "\x00", t.Type, t.Shape, n < 0)
		g := byForm[key]
		if g == nil {
			g = &group{Alike: Alike{Type: t.Type, Shape: t.Shape}, before: before, after: after}
			byForm[key] = g
			groups = append(groups, g)
		}
		g.Count++
		g.Bytes += t.Bytes
		if n >= 0 {
			g.numbers = append(g.numbers, n)
		}
	}
	list := make([]Alike, len(groups))
	for i, g := range groups {
		list[i] = g.Alike
		list[i].Names = g.before + Ranges(g.numbers) + g.after
	}
	return list
}

// cutLayerNumber divides a name at a layer's number, which is negative where there is none.
func cutLayerNumber(name string) (before, after string, n int) {
	if at := number.FindStringIndex(name); at != nil {
		if n, err := strconv.Atoi(name[at[0]+1 : at[1]-1]); err == nil {
			return name[:at[0]+1], name[at[1]-1:], n
		}
	}
	return name, "", -1
}

// Ranges writes numbers as ranges: 0-3,5.
func Ranges(numbers []int) string {
	numbers = slices.Compact(slices.Sorted(slices.Values(numbers)))
	var parts []string
	for i := 0; i < len(numbers); {
		j := i
		for j+1 < len(numbers) && numbers[j+1] == numbers[j]+1 {
			j++
		}
		if part := strconv.Itoa(numbers[i]); j > i {
			parts = append(parts, part+"-"+strconv.Itoa(numbers[j]))
		} else {
			parts = append(parts, part)
		}
		i = j + 1
	}
	return strings.Join(parts, ",")
}
