package frontend

import (
	"context"
	"net/http"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/api/recognition"
	"github.com/prefillonly/prefillonly/engine/client"
	"github.com/prefillonly/prefillonly/engine/frontend/exchange"
	"github.com/prefillonly/prefillonly/engine/frontend/registry"
	"github.com/prefillonly/prefillonly/engine/ocr"
	"github.com/prefillonly/prefillonly/engine/speech"
)

// pipelineEndpoints ask models of networks with work between them: for the text of pictures and of sound. Their methods are safe for concurrent use.
type pipelineEndpoints struct {
	models *registry.Registry
	pool   *client.Client
	ocr    *ocr.Service
	speech *speech.Service

	openSound func(ctx context.Context, file []byte) (speech.Sound, error) // Config.OpenSound
}

func newPipelineEndpoints(cfg *Config, models *registry.Registry, pool *client.Client) *pipelineEndpoints {
	return &pipelineEndpoints{models: models, pool: pool, ocr: ocr.New(ocr.Config{}), speech: speech.New(speech.Config{}), openSound: cfg.OpenSound}
}

// routes are the paths of the endpoints.
func (e *pipelineEndpoints) routes() []route {
	return []route{
		postRoute("/v1/ocr", e.answerPicture, describeOperation("The text of a picture, a JPEG or PNG; of a document as Mistral answers it", ofRuns, inJSON(recognition.ReadAnswer), recognition.PictureBody)),
		e.transcriptionRoute(),
	}
}

// pipelineCall is a request on its way through the networks of a pipeline.
type pipelineCall interface {
	Run(context.Context) error
	Close()
}

// runPipeline answers itself unless it returns a refusal.
func runPipeline(x *exchange.Exchange, r *http.Request, c pipelineCall, answer func() api.Encoder) *exchange.Refusal {
	defer c.Close()
	if err := c.Run(r.Context()); err != nil {
		return exchange.RefusalOf(r.Context(), err)
	}
	x.WritePieces(answer())
	return nil
}

// answerPicture reads the text of a picture.
func (e *pipelineEndpoints) answerPicture(x *exchange.Exchange, r *http.Request) {
	picture, refused := exchange.Prepare(x, r, recognition.DecodePicture, func(p *recognition.Picture) (*recognition.Picture, *exchange.Refusal) { return p, nil })
	if refused == nil {
		refused = e.readPicture(x, r, picture)
	}
	if refused != nil {
		x.Refuse(refused)
	}
}

func (e *pipelineEndpoints) readPicture(x *exchange.Exchange, r *http.Request, picture *recognition.Picture) *exchange.Refusal {
	m, refused := e.models.Pipeline(x, "ocr", picture.Model)
	if refused != nil {
		return refused
	}
	x.Rename(r, picture.RequestID)
	from, refused := x.Ask(e.pool, r, m.Name, picture.Model, picture.User)
	if refused != nil {
		return refused
	}
	symbols, err := m.Pipeline.Alphabet()
	if err != nil {
		return exchange.Unavailable("the model `%s` has failed: %s", m.Name, engine.HidePaths(err.Error()))
	}
	c := e.ocr.Call(from, ocr.Pipeline{Alphabet: ocr.NewAlphabet(symbols)}, m.Pipeline.Networks, picture.File)
	return runPipeline(x, r, c, func() api.Encoder {
		lines := c.Lines()
		read := &recognition.Read{ID: "ocr-" + c.ID, Model: c.Named, Text: ocr.Text(lines), Lines: []recognition.Line{}, Bytes: len(picture.File), Pages: picture.Pages}
		for _, l := range lines {
			read.Lines = append(read.Lines, recognition.Line(l))
		}
		return read
	})
}
