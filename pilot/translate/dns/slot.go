package dns

import (
	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/view"
	"github.com/mizzen-mesh/mizzen/pkg/api/nds"
	"github.com/mizzen-mesh/mizzen/pkg/cell"
)

// Slot returns the name table.
func Slot() *translate.Slot {
	return &translate.Slot{
		Name: "nds", TypeURL: translate.NameTableType,
		Units: func(*view.Context) []any { return []any{""} },
		Build: func(c *view.Context, _ any) ([]*translate.Message, error) {
			return []*translate.Message{{Proto: table(c)}}, nil
		},
	}
}

// table puts the services' names together. Of one host a Kubernetes service wins, and the addresses of ServiceEntries
// add up.
func table(c *view.Context) *nds.NameTable {
	list, _ := c.Cell(cell.ID{Kind: kindServices}).(*serviceList)
	out := &nds.NameTable{Table: make(map[string]*nds.NameTable_NameInfo, len(list.keys))}
	for _, key := range list.keys {
		n, _ := c.Cell(cell.ID{Kind: kindNames, Arg: key}).(*names)
		for _, e := range n.list {
			has := out.Table[e.host]
			switch {
			case has == nil, has.Registry != string(model.Kubernetes) && e.registry == model.Kubernetes:
				out.Table[e.host] = &nds.NameTable_NameInfo{
					Ips: e.ips, Registry: string(e.registry), Shortname: e.short, Namespace: e.namespace,
				}
			case has.Registry != string(model.Kubernetes):
				has.Ips = append(has.Ips[:len(has.Ips):len(has.Ips)], e.ips...)
			}
		}
	}
	return out
}
