//go:build cgo

package local

import (
	"bytes"
	"context"
	"image/jpeg"
	"testing"
)

// TestDifferencesAreShown: of a detector and one with other weights, the frames in which the other finds least of what the first finds, drawn; of a file and
// itself none.
func TestDifferencesAreShown(t *testing.T) {
	models, _ := toys(t, 50)
	ctx := context.Background()
	found, err := Differences(ctx, models[0], models[1].File, 3, Options{})
	if err != nil || len(found) < 1 || len(found) > 3 {
		t.Fatalf("%d frames, %v", len(found), err)
	}
	for i, d := range found {
		if d.Score >= 1 || i > 0 && d.Score < found[i-1].Score || d.Frame < 0 || d.Frame >= 15 {
			t.Errorf("frame %d of 15, score %v behind %v", d.Frame, d.Score, found[max(i-1, 0)].Score)
		}
		a, err := jpeg.Decode(bytes.NewReader(d.Original))
		b, other := jpeg.Decode(bytes.NewReader(d.Other))
		if err != nil || other != nil || a.Bounds() != b.Bounds() || bytes.Equal(d.Original, d.Other) {
			t.Errorf("%v, %v: pictures of %d and %d bytes", err, other, len(d.Original), len(d.Other))
		}
	}
	if same, err := Differences(ctx, models[0], models[0].File, 3, Options{}); err != nil || len(same) > 0 {
		t.Errorf("a file differs from itself in %d frames, %v", len(same), err)
	}
}
