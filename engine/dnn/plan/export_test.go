package plan

import (
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/lower"
)

// HostNodes are those that the host computes.
func (p *Plan) HostNodes() (nodes []*graph.Node) {
	for _, op := range p.net.Ops {
		if host, ok := op.Kind.(*lower.Host); ok {
			nodes = append(nodes, host.Node)
		}
	}
	return nodes
}
