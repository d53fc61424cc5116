/** As much of a browser as signing in needs: cookies by name and path, which know no ports, and no redirect followed unasked. */

export interface Answered {
  status: number
  headers: Headers
  text: string
  /** The data of the envelope, or the problem document itself. */
  data: Record<string, unknown>
}

export interface Asked {
  method?: string
  body?: unknown
  headers?: Record<string, string>
  /** False: sends and keeps no cookies. */
  cookies?: boolean
}

interface Cookie {
  value: string
  path: string
  /** As it was set. */
  line: string
}

export interface Browser {
  /** Paths are those of `origin`. */
  ask(path: string, given?: Asked): Promise<Answered>
  /** Follows redirects until `stop` is true of the next address, which is given back unasked; or the last answer. */
  follow(path: string, stop: (url: URL) => boolean): Promise<{ url: URL } | Answered>
  cookies: Map<string, Cookie>
}

export function createBrowser(origin: string, always: Record<string, string> = {}): Browser {
  const cookies = new Map<string, Cookie>()

  async function ask(path: string, given: Asked = {}): Promise<Answered> {
    const url = new URL(path, origin)
    const held = given.cookies === false ? '' : cookiesFor(url)
    const response = await fetch(url, {
      method: given.method ?? (given.body === undefined ? 'GET' : 'POST'),
      redirect: 'manual',
      headers: {
        ...(given.body === undefined ? {} : { 'content-type': 'application/json' }),
        ...(held === '' ? {} : { cookie: held }),
        ...always,
        ...given.headers,
      },
      ...(given.body === undefined ? {} : { body: JSON.stringify(given.body) }),
    })
    const text = await response.text()
    if (given.cookies !== false) for (const line of response.headers.getSetCookie()) keep(line)
    return { status: response.status, headers: response.headers, text, data: dataOf(text) }
  }

  function cookiesFor({ pathname }: URL): string {
    return [...cookies]
      .filter(([, { path }]) => pathname === path || pathname.startsWith(path.replace(/\/?$/, '/')))
      .map(([name, { value }]) => `${name}=${value}`)
      .join('; ')
  }

  function keep(line: string): void {
    const [pair = '', ...attributes] = line.split(/; */)
    const [name = '', value = ''] = pair.split(/=(.*)/s)
    const attribute = (wanted: string) =>
      attributes.find((one) => one.toLowerCase().startsWith(`${wanted}=`))?.split('=')[1]
    const expires = attribute('expires')
    const over = attribute('max-age') === '0' || (expires !== undefined && Date.parse(expires) <= Date.now())
    if (over || value === '') cookies.delete(name)
    else cookies.set(name, { value, path: attribute('path') ?? '/', line })
  }

  return {
    ask,
    cookies,
    async follow(path, stop) {
      let url = new URL(path, origin)
      for (let steps = 0; steps < 20; steps++) {
        if (stop(url)) return { url }
        const answer = await ask(url.href)
        const location = answer.headers.get('location')
        if (location === null) return answer
        url = new URL(location, url)
      }
      throw new Error('too many redirects')
    },
  }
}

function dataOf(text: string): Record<string, unknown> {
  try {
    const json = JSON.parse(text) as Record<string, unknown>
    return json.ok === true ? (json.data as Record<string, unknown>) : json
  } catch {
    return {}
  }
}
