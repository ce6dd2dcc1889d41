package device

import (
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine/model"
)

func TestPlanPages(t *testing.T) {
	plan := model.Plan{Weights: 600, Work: 200, Block: 10}
	for _, c := range []struct {
		available int64
		bytes     int64
		share     float64
		pages     int
		want      string // in the error
	}{
		{1000, 0, 0.5, 10, ""},
		{1000, 150, 0.5, 15, ""},
		{1000, 0, 0, 0, ""},
		{1000, 201, 0.5, 0, "lower --max-model-len"},
		{799, 0, 0.5, 0, "lower --max-model-len"},
	} {
		pages, err := planPages(Options{CacheBytes: c.bytes, CacheShare: c.share}, plan, c.available)
		if pages != c.pages || (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %d pages, %v", c, pages, err)
		}
	}
}
