package device

import (
	"context"
	"strings"

	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/engine/host"
	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// null is the runner without models: they have the limits of the checkpoints and no weights.
type null struct{ *executor.Null }

func openNull(o Options) (Runner, error) {
	info, err := nullInfo(o.Models)
	if err != nil && !o.Partial {
		return nil, err
	}
	return &null{executor.NewNull(info)}, nil
}

// SetModels implements Runner; passes that are open go on.
func (n *null) SetModels(models []host.Model) (again bool) {
	info, _ := nullInfo(models) // reasons are in it
	n.Null = executor.NewNull(info)
	return false
}

// Ahead implements Runner.
func (*null) Ahead(context.Context, []host.Model) {}

// nullInfo describes models; the error is the first one's reason where none can be run.
func nullInfo(models []host.Model) (wire.ExecutorInfo, error) {
	info := wire.ExecutorInfo{Device: "null", CanPause: true}
	var first error
	failed := 0
	for _, m := range models {
		described := wire.ModelInfo{Name: m.Name, Keep: m.Keep, Idle: m.Idle}
		if c, err := weights.ReadConfig(m.Path); err != nil {
			described.Reason = err.Error()
			if failed++; first == nil {
				first = &Error{Model, err}
			}
		} else {
			described.Fingerprint, described.Tokens = "null", nullLimits(c, m)
		}
		info.Models = append(info.Models, described)
	}
	if failed < len(models) {
		first = nil
	}
	return info, first
}

func nullLimits(c weights.Config, m host.Model) *wire.TokenLimits {
	maxLen := c.MaxPositionEmbeddings
	if m.Prompts.MaxLen > 0 {
		maxLen = m.Prompts.MaxLen
	}
	labels := 0
	if len(c.Architectures) > 0 && strings.HasSuffix(c.Architectures[0], "ForSequenceClassification") {
		labels = c.Labels()
	}
	return &wire.TokenLimits{
		VocabSize: c.VocabSize, MaxModelLen: maxLen, BlockTokens: m.Prompts.BlockTokens, NumBlocks: 1 << 20 / m.Prompts.BlockTokens, MaxPassRows: maxLen, CopiesParts: true,
		Hidden: c.HiddenSize, Labels: labels,
	}
}
