package weights

import (
	"crypto/sha256"
	"fmt"
)

// ID stands for a tensor's type, shape and content: tensors of one ID are equal.
type ID [sha256.Size]byte

// ID is that of a tensor that there is, with its scales, and what else it is stored in, where it is of codes.
func (c *Checkpoint) ID(name string) ID {
	if module, l, ok := c.groupedLayout(name); ok {
		return c.groupedID(module, l)
	}
	t, packed, _ := c.storedTensor(name)
	id := c.Alone(t.name)
	if packed || computable[t.dtype].Scaled() {
		scales := c.Alone(name + scaleSuffix)
		id = sha256.Sum256(append(id[:], scales[:]...))
	}
	return id
}

// Alone is the ID of a tensor without scales. Unless Equate has said more, it is made of the file's identity
// and the tensor's name: the tensor has it in every checkpoint of that file, and no other one has it.
func (c *Checkpoint) Alone(name string) ID {
	if id, ok := c.ids[name]; ok {
		return id
	}
	t := c.tensors[name]
	return sha256.Sum256(fmt.Appendf(nil, "%v %q %s %v", t.file.Identity, name, t.kind(), t.shape))
}

// Equate says that the content of the named tensor is that of the tensor that is Alone with this ID.
func (c *Checkpoint) Equate(name string, id ID) {
	if c.ids == nil {
		c.ids = map[string]ID{}
	}
	c.ids[name] = id
}

// ID identifies what Tensor makes in a given shape.
func (r Random) ID(name string) ID {
	return sha256.Sum256(fmt.Appendf(nil, "random %d %v %q", r.Seed, r.TypeOf(name), name))
}
