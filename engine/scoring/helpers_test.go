package scoring

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/client/clienttest"
	"github.com/prefillonly/prefillonly/engine/text"
)

// last is what was submitted last.
func (w *world) last() *engine.Tokens {
	submits, _ := w.scheduler.Seen()
	return submits[len(submits)-1].Work.(*engine.Tokens)
}

// widen gives the model a context of n tokens.
func (w *world) widen(n int) {
	welcome := clienttest.Welcome(2, 300)
	limits := welcome.Served[1].Tokens
	limits.Hidden, limits.Labels, limits.MaxModelLen = hidden, max(1, len(w.subject.Labels)), n
	w.pool.Deliver(welcome)
}

// words has one token for yes and for no.
type words struct{ text.Tokenizer }

func (w words) Encode(ctx context.Context, salt, text string, addSpecial bool) ([]engine.TokenID, error) {
	switch text {
	case "yes":
		return []engine.TokenID{'Y'}, nil
	case "no":
		return []engine.TokenID{'N'}, nil
	}
	return w.Tokenizer.Encode(ctx, salt, text, addSpecial)
}

// template writes the variables of a template, the query and the document.
type template struct{ text.Template }

func (template) RenderChat(messages []byte, o text.ChatOptions) (string, error) {
	var list []struct{ Role, Content string }
	if err := json.Unmarshal(messages, &list); err != nil || len(list) < 2 {
		return "", fmt.Errorf("%s: %w", messages, err)
	}
	text := ""
	for _, m := range list {
		text += m.Role[:1] + ":" + m.Content + ";"
	}
	variables, err := json.Marshal(o.Variables)
	return fmt.Sprintf("%s%v%s", text, o.AddGenerationPrompt, variables), err
}

// framed writes a message's content between two words.
type framed struct{ text.Template }

func (framed) RenderChat(messages []byte, _ text.ChatOptions) (string, error) {
	var list []struct{ Content string }
	err := json.Unmarshal(messages, &list)
	return "head:" + list[0].Content + ":tail", err
}
