// Program fields prints, for every struct that the API server reads and writes,
// how each of its fields looks on the wire when it holds nothing: OpenAPI does
// not say it, and answers can only be compared whole when it is known.
//
// One line per struct: the OpenAPI name, then a JSON object from field name to
//
//	"omit"   the field vanishes when it is empty (false, 0, "", no entries)
//	"nil"    the field vanishes only when it is absent: a given zero stays
//	"zero"   the field vanishes when it is the zero struct or time
//	"keep:Z" the field is always there; Z is what an empty one is written as
package main

import (
	"bufio"
	"encoding"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

var (
	jsonMarshaler = reflect.TypeOf((*json.Marshaler)(nil)).Elem()
	textMarshaler = reflect.TypeOf((*encoding.TextMarshaler)(nil)).Elem()
)

func main() {
	all := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, apiextensions.AddToScheme, apiregistration.AddToScheme} {
		if err := add(all); err != nil {
			fmt.Fprintln(os.Stderr, "fields:", err)
			os.Exit(1)
		}
	}
	structs := map[string]map[string]string{}
	for _, known := range all.AllKnownTypes() {
		visit(known, structs)
	}
	names := make([]string, 0, len(structs))
	for name := range structs {
		names = append(names, name)
	}
	sort.Strings(names)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for _, name := range names {
		fields, err := json.Marshal(structs[name])
		if err != nil {
			fmt.Fprintln(os.Stderr, "fields:", err)
			os.Exit(1)
		}
		fmt.Fprintf(out, "%s %s\n", name, fields)
	}
}

func visit(t reflect.Type, structs map[string]map[string]string) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Array:
		visit(t.Elem(), structs)
		return
	case reflect.Struct:
	default:
		return
	}
	name := openAPIName(t)
	if name == "" || structs[name] != nil || isScalar(t) {
		return
	}
	fields := map[string]string{}
	structs[name] = fields
	collect(t, fields, structs)
}

func collect(t reflect.Type, fields map[string]string, structs map[string]map[string]string) {
	for i := range t.NumField() {
		field := t.Field(i)
		tag := strings.Split(field.Tag.Get("json"), ",")
		if tag[0] == "-" || !field.IsExported() {
			continue
		}
		if field.Anonymous && tag[0] == "" {
			collect(field.Type, fields, structs)
			continue
		}
		name := tag[0]
		if name == "" {
			name = field.Name
		}
		fields[name] = presence(field.Type, tag[1:])
		visit(field.Type, structs)
	}
}

func presence(t reflect.Type, options []string) string {
	omitEmpty, omitZero := false, false
	for _, option := range options {
		omitEmpty = omitEmpty || option == "omitempty"
		omitZero = omitZero || option == "omitzero"
	}
	nilable := t.Kind() == reflect.Pointer || t.Kind() == reflect.Interface
	switch {
	case (omitEmpty || omitZero) && nilable:
		return "nil"
	case omitZero && t.Kind() == reflect.Struct:
		return "zero"
	case omitEmpty && t.Kind() != reflect.Struct:
		return "omit"
	case omitZero:
		return "nil"
	}
	zero, err := json.Marshal(reflect.Zero(t).Interface())
	if err != nil {
		zero = []byte("null")
	}
	return "keep:" + string(zero)
}

func isScalar(t reflect.Type) bool {
	for _, marshaler := range []reflect.Type{jsonMarshaler, textMarshaler} {
		if t.Implements(marshaler) || reflect.PointerTo(t).Implements(marshaler) {
			return true
		}
	}
	return false
}

func openAPIName(t reflect.Type) string {
	path := t.PkgPath()
	if path == "" || t.Name() == "" {
		return ""
	}
	host, rest, _ := strings.Cut(path, "/")
	parts := strings.Split(host, ".")
	for i, j := 0, len(parts)-1; i < j; i, j = i+1, j-1 {
		parts[i], parts[j] = parts[j], parts[i]
	}
	return strings.Join(append(parts, strings.Split(rest, "/")...), ".") + "." + t.Name()
}
