/** Routes in, the methods that an address knows out: what 405 needs. */

import type { FastifyInstance } from 'fastify'

/** Watches the routes of an app and its children; the result names the methods that exist at a request's address. */
export function createRouteTable(app: FastifyInstance): (url: string) => string[] {
  const routes = new Map<string, { pattern: RegExp; methods: Set<string> }>()
  app.addHook('onRoute', ({ url, method }) => {
    const route = routes.get(url) ?? { pattern: patternOf(url), methods: new Set<string>() }
    routes.set(url, route)
    for (const name of Array.isArray(method) ? method : [method]) route.methods.add(name)
  })
  return (url) => {
    const end = url.indexOf('?')
    const path = end < 0 ? url : url.slice(0, end)
    const methods = new Set<string>()
    for (const route of routes.values()) {
      if (route.pattern.test(path)) for (const name of route.methods) methods.add(name)
    }
    return [...methods].sort()
  }
}

function patternOf(url: string): RegExp {
  const escaped = url.replace(/[.+?^${}()|[\]\\]/g, '\\$&')
  return new RegExp(`^${escaped.replace(/:[A-Za-z_]+/g, '[^/]+').replace(/\*/g, '.*')}$`)
}
