package published

import (
	"fmt"
	"strconv"
	"strings"
)

// Case is one of the outcomes that are known of the edge schedule's simulator in the GEMEL authors' repository: with the costs of the
// paper's tables, a camera for each model, and what two models share taken off both bytes and seconds of a load.
type Case struct {
	Architectures []string
	Memory        float64 // share of the way from the least to all
	Sharing       float64 // 0 or 1: nothing or all that could be
	Batches       []int   // of each model
	Lives         int     // a frame, in ms
	Rate          float64 // frames a second
	Impossible    bool    // a pass has no room even alone

	Shares    []float64 // of each model's frames
	Waited    float64   // share of the time, for loads
	Evictions int
}

// casesText are models, memory, sharing, batches, ms, frames a second, shares, waited and evictions; one number for all models is
// written once.
const casesText = `
yolo,r152,r50 0 0 1 100 30 .17 0.7382 1567
yolo,r152,r50 0 1 1 100 30 .20 0.7050 1765
yolo,r152,r50 0.5 0 1 100 30 .36 0.4638 2135
yolo,r152,r50 0.75 0 1 100 30 .37,.36,.36 0.4503 1095
yolo,r152,r50 0.75 1 1 100 30 .66 0.0010 0
r50,r50,r152,r152 0 0 1 100 30 .13 0.7349 1603
r50,r50,r152,r152 0.5 0 1 100 30 .15 0.7057 1777
r50,r50,r152,r152 0.5 1 1 100 30 .50 0.0004 0
r50,r50,r152,r152 0.75 0 1 100 30 .38 0.2412 2285
vgg,vgg,vgg 0 0 1 100 30 .15 0.9718 1349
vgg,vgg,vgg 0 1 1 100 30 1 0.0007 0
vgg,vgg,vgg 0.5 0 1 100 30 .30 0.9435 1345
vgg,vgg,vgg 0.75 0 1 100 30 .30 0.9435 1345
vgg,vgg,vgg 0.75 1 1 100 30 1 0.0007 0
yolo,yolo,r50 0 0 1 100 30 .20 0.7483 1781
yolo,yolo,r50 0.5 0 1 100 30 .23 0.7038 2098
yolo,yolo,r50 0.5 1 1 100 30 .79 0.0005 0
yolo,yolo,r50 0.75 0 1 100 30 .40 0.4969 1780
frCNN-r50,r50 0 0 1 100 30 .00 0.0014 0
frCNN-r50,r50 0 1 1 100 30 .00 0.0011 0
frCNN-r50,r50 0.5 0 1 100 30 .00 0.0014 0
frCNN-r50,r50 0.75 0 1 100 30 .00 0.0014 0
frCNN-r50,r50 0.75 1 1 100 30 .00 0.0011 0
ssd-vgg,vgg,inception,tiny-yolo 0 0 1 100 30 .26 0.7599 3134
ssd-vgg,vgg,inception,tiny-yolo 0.5 0 1 100 30 .71 0.3465 4257
ssd-vgg,vgg,inception,tiny-yolo 0.5 1 1 100 30 .96 0.1199 2866
ssd-vgg,vgg,inception,tiny-yolo 0.75 0 1 100 30 .76 0.2995 2281
yolo,yolo,tiny-yolo,ssd-vgg,ssd-vgg,r152 0 0 1 100 30 .13 0.6404 2279
yolo,yolo,tiny-yolo,ssd-vgg,ssd-vgg,r152 0 1 1 100 30 .20 0.4216 1832
yolo,yolo,tiny-yolo,ssd-vgg,ssd-vgg,r152 0.5 0 1 100 30 .24 0.3255 2852
yolo,yolo,tiny-yolo,ssd-vgg,ssd-vgg,r152 0.75 0 1 100 30 .31 0.1225 1854
yolo,yolo,tiny-yolo,ssd-vgg,ssd-vgg,r152 0.75 1 1 100 30 .35 0.0009 0
yolo,r152,r50 0.5 0 2,2,2 100 30 impossible
yolo,r152,r50 0.5 0 1,2,4 100 30 impossible
yolo,r152,r50 0 1 1 400 30 .20 0.7050 1765
yolo,r152,r50 0 1 1 100 10 .57 0.6852 5143
`

// Cases returns them.
func Cases() (list []Case) {
	for _, line := range strings.Split(strings.TrimSpace(casesText), "\n") {
		var models, batches, shares string
		var c Case
		n, _ := fmt.Sscan(line, &models, &c.Memory, &c.Sharing, &batches, &c.Lives, &c.Rate, &shares, &c.Waited, &c.Evictions)
		c.Architectures, c.Impossible = strings.Split(models, ","), n == 7 && shares == "impossible"
		for i := range c.Architectures {
			batch, _ := strconv.Atoi(numberAt(batches, i))
			c.Batches = append(c.Batches, batch)
			if !c.Impossible {
				share, _ := strconv.ParseFloat(numberAt(shares, i), 64)
				c.Shares = append(c.Shares, share)
			}
		}
		if n < 9 && !c.Impossible {
			panic("cases: " + line)
		}
		list = append(list, c)
	}
	return list
}

// numberAt is the i-th of some numbers, or the only one.
func numberAt(list string, i int) string {
	numbers := strings.Split(list, ",")
	return numbers[min(i, len(numbers)-1)]
}
