package main

import (
	"context"
	"time"

	"k8s.io/client-go/tools/cache"
)

// informer is a shared informer that is fed by hand. A change is in the store before any handler
// hears of it, and every handler has run when put or remove returns, in the order in which the
// handlers were registered. No goroutine and no clock takes part, so a script has one outcome.
type informer struct {
	indexer  cache.Indexer
	handlers []cache.ResourceEventHandler
}

var _ cache.SharedIndexInformer = &informer{}

func newInformer() *informer {
	indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	return &informer{indexer: cache.NewIndexer(cache.DeletionHandlingMetaNamespaceKeyFunc, indexers)}
}

// put adds the object, or replaces the one of the same name.
func (i *informer) put(object any) error {
	old, exists, err := i.indexer.Get(object)
	if err != nil {
		return err
	}
	if !exists {
		if err := i.indexer.Add(object); err != nil {
			return err
		}
		for _, handler := range i.handlers {
			handler.OnAdd(object, false)
		}
		return nil
	}
	if err := i.indexer.Update(object); err != nil {
		return err
	}
	for _, handler := range i.handlers {
		handler.OnUpdate(old, object)
	}
	return nil
}

// remove deletes the object that is stored under the key and says whether there was one.
func (i *informer) remove(key string) (bool, error) {
	old, exists, err := i.indexer.GetByKey(key)
	if err != nil || !exists {
		return false, err
	}
	if err := i.indexer.Delete(old); err != nil {
		return false, err
	}
	for _, handler := range i.handlers {
		handler.OnDelete(old)
	}
	return true, nil
}

// synced is the registration of a handler: what the store held was delivered at once.
type synced struct{}

func (synced) HasSynced() bool { return true }

func (i *informer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	i.handlers = append(i.handlers, handler)
	for _, object := range i.indexer.List() {
		handler.OnAdd(object, true)
	}
	return synced{}, nil
}

func (i *informer) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, _ time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(handler)
}

func (i *informer) AddEventHandlerWithOptions(handler cache.ResourceEventHandler, _ cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(handler)
}

func (i *informer) AddIndexers(indexers cache.Indexers) error { return i.indexer.AddIndexers(indexers) }
func (i *informer) GetIndexer() cache.Indexer                 { return i.indexer }
func (i *informer) GetStore() cache.Store                     { return i.indexer }

func (i *informer) RemoveEventHandler(cache.ResourceEventHandlerRegistration) error { return nil }
func (i *informer) GetController() cache.Controller                                 { return nil }
func (i *informer) Run(<-chan struct{})                                             {}
func (i *informer) RunWithContext(context.Context)                                  {}
func (i *informer) HasSynced() bool                                                 { return true }
func (i *informer) LastSyncResourceVersion() string                                 { return "" }
func (i *informer) SetWatchErrorHandler(cache.WatchErrorHandler) error              { return nil }
func (i *informer) SetWatchErrorHandlerWithContext(cache.WatchErrorHandlerWithContext) error {
	return nil
}
func (i *informer) SetTransform(cache.TransformFunc) error { return nil }
func (i *informer) IsStopped() bool                        { return false }
