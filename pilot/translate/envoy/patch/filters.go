package patch

import (
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"

	networking "istio.io/api/networking/v1alpha3"
)

// filterMessage is a filter of one of the three kinds.
type filterMessage interface {
	proto.Message
	GetName() string
	GetTypedConfig() *anypb.Any
}

// editFilters applies patches to a list of filters: first those that change the list, then those that change a filter.
// named gives the name of the filter that a patch is about.
func editFilters[F filterMessage](list []F, patches []*patch, named func(*patch) string, fail func(*patch, error)) []F {
	for _, p := range patches {
		if !p.merges() {
			list = arrange(list, p, named(p))
		}
	}
	for _, p := range patches {
		if !p.merges() {
			continue
		}
		for i, f := range list {
			name := named(p)
			if name != "" && !sameFilter(name, f.GetName()) {
				continue
			}
			merged, err := mergeFilter(f, p)
			switch {
			case err == nil:
				list[i] = merged
			case name != "": // else it is for those of its type
				fail(p, fmt.Errorf("the filter %q: %w", f.GetName(), err))
			}
		}
	}
	return list
}

// arrange inserts, replaces or removes. A place next to a filter that is not there is no place.
func arrange[F filterMessage](list []F, p *patch, name string) []F {
	is := func(f F) bool { return sameFilter(name, f.GetName()) }
	at := -1
	if name != "" {
		at = slices.IndexFunc(list, is)
	}
	value := func() F {
		f, _ := p.value.(F)
		return cloned(f)
	}
	switch p.op {
	case networking.EnvoyFilter_Patch_ADD:
		return append(list, value())
	case networking.EnvoyFilter_Patch_INSERT_FIRST:
		return slices.Insert(list, 0, value())
	case networking.EnvoyFilter_Patch_INSERT_AFTER:
		if name == "" {
			return append(list, value())
		}
		if at >= 0 {
			return slices.Insert(list, at+1, value())
		}
	case networking.EnvoyFilter_Patch_INSERT_BEFORE:
		if name == "" {
			return slices.Insert(list, 0, value())
		}
		if at >= 0 {
			return slices.Insert(list, at, value())
		}
	case networking.EnvoyFilter_Patch_REPLACE:
		if at >= 0 {
			list[at] = value()
		}
	case networking.EnvoyFilter_Patch_REMOVE:
		if name != "" {
			return slices.DeleteFunc(list, is)
		}
	default:
	}
	return list
}

// mergeFilter returns f with a patch's value merged in. The name may change; the configurations must be of one type.
func mergeFilter[F filterMessage](f F, p *patch) (F, error) {
	value, ok := cloned(p.value).(F)
	if !ok {
		return f, errors.New("the value is of another kind")
	}
	out := cloned(f)
	r := out.ProtoReflect()
	config := r.Descriptor().Fields().ByName("typed_config")
	if src := value.GetTypedConfig(); src != nil {
		merged, err := mergeAny(f.GetTypedConfig(), src)
		if err != nil {
			return f, err
		}
		value.ProtoReflect().Clear(config)
		merge(out, value, p.replacesLists())
		r.Set(config, protoreflect.ValueOfMessage(merged.ProtoReflect()))
		return out, nil
	}
	merge(out, value, p.replacesLists())
	return out, nil
}
