package lidar

import (
	"github.com/prefillonly/prefillonly/videoext/oneadapt"
	"github.com/prefillonly/prefillonly/videoext/pipeline"
)

// Regions sends all points of the blocks in which cars were in the last sweep of the interval before, and those beside them that they reach into, and of the others a part: a
// setting by its number (the region-based way of OneAdapt, 4.2.1, after Liu and others, "Edge Assisted Real-time Object Detection", MobiCom 2019).
func Regions(last pipeline.Result, inside, outside int) oneadapt.Config {
	c := make(oneadapt.Config, Blocks*Blocks)
	for i := range c {
		c[i] = outside
	}
	found := last.([][]Car)
	for _, car := range found[len(found)-1] {
		if car.Score <= 0.5 {
			continue
		}
		for _, corner := range boxCorners(car.Box) {
			if b := blockOf(Point{X: float32(corner.x), Y: float32(corner.y)}); b >= 0 {
				c[b] = inside
			}
		}
	}
	return c
}
