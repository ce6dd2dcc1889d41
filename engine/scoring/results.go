package scoring

import (
	"math"
	"slices"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/api/pooling"
	"github.com/prefillonly/prefillonly/engine/checkpoint"
	pools "github.com/prefillonly/prefillonly/engine/pooling"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// checkDimensions refuses a length to which the model's vectors cannot be cut.
func (c *Call) checkDimensions(limits *wire.TokenLimits) error {
	n, listed, hidden := c.Dimensions, c.subject.Dimensions, limits.Hidden
	if c.subject.Dense != nil && c.Task != pooling.EmbedTokens {
		hidden = c.subject.Width
	}
	switch {
	case n == 0:
	case len(listed) > 0 && !slices.Contains(listed, n) && n != hidden:
		return api.Invalid("dimensions", "dimensions is %d; vectors of the model `%s` can be cut to %v", n, c.Named, listed)
	case n > hidden:
		return api.Invalid("dimensions", "dimensions is %d; vectors of the model `%s` have %d", n, c.Named, hidden)
	}
	return nil
}

// acceptVector makes of the vector, or the logits, of prompt i what is asked for.
func (c *Call) acceptVector(i int, out *engine.TokenOutput) error {
	p, rows := &c.prompts[i], 1
	if c.promptAsk(p).Pool == engine.PoolAll {
		rows = p.countTokens()
	}
	v := out.Vector
	if len(v) == 0 || len(v)%rows != 0 {
		return engine.Errorf(engine.CodeInternal, "the model gave %d numbers for %d vectors", len(v), rows)
	}
	for _, x := range v {
		if y := float64(x); math.IsNaN(y) || math.IsInf(y, 0) {
			return engine.Errorf(engine.CodeInternal, "the model gave a number that is not finite")
		}
	}
	r := &c.found[i]
	r.Rows = rows
	if c.ask.Head {
		return c.acceptLogits(r, v)
	}
	if c.Task != pooling.EmbedTokens {
		var err error
		if v, err = c.applyLayers(v, rows, p.prompted); err != nil {
			return err
		}
		r.Rows = 1
	}
	r.Vector = c.finishVectors(v, r.Rows)
	return nil
}

// applyLayers takes a vector through the layers behind the pooling. Where tokens of a prompt are not pooled, it first pools the
// vectors of those behind them.
func (c *Call) applyLayers(v []float32, rows, prompted int) ([]float32, error) {
	if prompted > 0 {
		width := len(v) / rows
		pool := pools.New(c.subject.Pool, width)
		for at := min(prompted, rows-1); at < rows; at++ {
			pool.Add(v[at*width : (at+1)*width])
		}
		v = pool.Vector()
	}
	if c.subject.Dense == nil {
		return v, nil
	}
	if want := c.subject.Dense[0].Weight.Cols; len(v) != want {
		return nil, engine.Errorf(engine.CodeInternal, "the model gave %d numbers; the layer behind its pooling reads %d", len(v), want)
	}
	return c.subject.Dense.Apply(v), nil
}

// finishVectors cuts vectors to the dimensions asked for, and gives them the length 1 where that is asked for.
func (c *Call) finishVectors(v []float32, rows int) []float32 {
	width := len(v) / rows
	cut := width
	if c.Dimensions > 0 {
		cut = min(cut, c.Dimensions)
	}
	unit := c.subject.Normalize
	if c.Task == pooling.EmbedTokens {
		unit = false
	}
	if c.Normalize != nil {
		unit = *c.Normalize
	}
	for i := range rows {
		row := v[i*cut : (i+1)*cut]
		copy(row, v[i*width:i*width+cut])
		if unit {
			normalize(row)
		}
	}
	return v[:rows*cut]
}

// normalize gives v the length 1, unless it is 0.
func normalize(v []float32) {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	if sum == 0 {
		return
	}
	scale := 1 / math.Sqrt(sum)
	for i := range v {
		v[i] = float32(float64(v[i]) * scale)
	}
}

// acceptLogits makes scores of the logits of each row.
func (c *Call) acceptLogits(r *pooling.Result, v []float32) error {
	width := len(v) / r.Rows
	if width != len(c.subject.Labels) {
		return engine.Errorf(engine.CodeInternal, "the model gave %d logits; its checkpoint has %d labels", width, len(c.subject.Labels))
	}
	r.Scores = make([]float64, len(v))
	for i, x := range v {
		r.Scores[i] = float64(x)
	}
	for i := range r.Rows {
		c.applyActivation(r.Scores[i*width : (i+1)*width])
	}
	return nil
}

// forcedActivation is the activation of a request that says whether there is one, whatever the checkpoint says.
func forcedActivation(on bool, labels int) checkpoint.Activation {
	switch {
	case !on:
		return checkpoint.Identity
	case labels == 1:
		return checkpoint.Sigmoid
	}
	return checkpoint.Softmax
}

// applyActivation makes scores of logits, as the request or else the checkpoint says.
func (c *Call) applyActivation(v []float64) {
	how := c.subject.Activation
	if c.Activate != nil {
		how = forcedActivation(*c.Activate, len(v))
	}
	switch how {
	case checkpoint.Sigmoid:
		for i, x := range v {
			v[i] = 1 / (1 + math.Exp(-x))
		}
	case checkpoint.Softmax:
		softmax(v, 1)
	}
}

// softmax makes probabilities of logits, or of log-probabilities.
func softmax(v []float64, temperature float64) {
	top, sum := slices.Max(v), 0.0
	for i, x := range v {
		v[i] = math.Exp((x - top) / temperature)
		sum += v[i]
	}
	for i := range v {
		v[i] /= sum
	}
}

// acceptLabels makes of the log-probabilities of prompt i's labels what is asked for.
func (c *Call) acceptLabels(i int, out *engine.TokenOutput) error {
	if out.Answer == nil || len(out.Answer.Labels) != len(c.ask.Labels) {
		return engine.Errorf(engine.CodeInternal, "the model did not say the probabilities of %d labels", len(c.ask.Labels))
	}
	v := make([]float64, len(c.ask.Labels))
	for k, label := range out.Answer.Labels {
		if v[k] = float64(label.Logprob); math.IsNaN(v[k]) {
			return engine.Errorf(engine.CodeInternal, "the model gave a number that is not finite")
		}
		v[k] = max(v[k], api.Floor)
	}
	switch {
	case c.Task == pooling.Score: // the logit of yes against no
		v = []float64{v[0] - v[1]}
		c.applyActivation(v)
	case c.Softmax:
		softmax(v, c.Temperature)
	default:
		for k := range v {
			v[k] = math.Exp(v[k])
		}
	}
	c.found[i].Scores = v
	return nil
}

// pairResults are the results of pairs. An embedder's are made of the vectors of queries and documents.
func (c *Call) pairResults() []pooling.Result {
	if c.subject.Kind != checkpoint.Embedder {
		return c.found
	}
	queries, documents := c.found[:len(c.Queries)], c.found[len(c.Queries):]
	list := make([]pooling.Result, len(documents))
	for i := range documents {
		list[i].Scores = []float64{similarity(c.subject.Similarity, queries[min(i, len(queries)-1)].Vector, documents[i].Vector)}
	}
	return list
}

// similarity compares two vectors. That of a vector of zeros is 0.
func similarity(how checkpoint.Similarity, a, b []float32) float64 {
	var dot, aa, bb, squares, distances float64
	for i := range a {
		x, y := float64(a[i]), float64(b[i])
		dot, aa, bb = dot+x*y, aa+x*x, bb+y*y
		squares, distances = squares+(x-y)*(x-y), distances+math.Abs(x-y)
	}
	switch how {
	case checkpoint.Dot:
		return dot
	case checkpoint.Euclidean:
		return -math.Sqrt(squares)
	case checkpoint.Manhattan:
		return -distances
	}
	if aa == 0 || bb == 0 {
		return 0
	}
	return dot / math.Sqrt(aa*bb)
}
