package server

import (
	"github.com/mizzen-mesh/mizzen/pilot/allocate"
	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/source"
	"github.com/mizzen-mesh/mizzen/pilot/source/file"
	"github.com/mizzen-mesh/mizzen/pilot/source/selection"
	"github.com/mizzen-mesh/mizzen/pilot/validate"
)

// Directory returns the source of a directory's objects that count: valid ones of the control plane's revision, in
// namespaces that are selected. Without a cluster, where the leader writes them, it gives ServiceEntries their addresses.
func Directory(dir string, s *model.Settings, withCluster bool) (*selection.Source, error) {
	files, err := file.New(file.Options{Dir: dir, Check: validate.Object})
	if err != nil {
		return nil, err
	}
	var src source.Source = files
	if !withCluster && s.EnableIPAutoallocate {
		src = allocate.NewSource(src, AddressRanges(s))
	}
	return selection.New(src, s.Revision, s.SystemNamespace), nil
}
