/** Every page of the console: its address, its place in the menu, and the routes that it reads. */

import { type ComponentType, lazy } from 'react'
import { Groups } from './pages/groups.tsx'
import { Overview } from './pages/overview.tsx'
import { Webhooks } from './pages/webhooks.tsx'

export interface PageEntry {
  path: string
  /** Its word in the menu; a page without one is reached by links. */
  menu?: string
  /** The letter after `g` that goes there. */
  letter?: string
  /** Who may not call these does not see it. */
  needs: readonly string[]
  component: ComponentType
}

export const pages: readonly PageEntry[] = [
  { path: '/', menu: 'Overview', letter: 'o', needs: ['GET /api/v1/brain/state'], component: Overview },
  { path: '/groups', menu: 'Groups', letter: 'c', needs: ['GET /api/v1/log/groups'], component: Groups },
  {
    path: '/groups/:group',
    needs: ['GET /api/v1/log/groups/:group', 'GET /api/v1/log/groups/:group/lag'],
    component: lazy(() => import('./pages/group.tsx')),
  },
  {
    path: '/webhooks',
    menu: 'Webhooks',
    letter: 'w',
    needs: ['GET /api/v1/webhooks/targets'],
    component: Webhooks,
  },
  {
    path: '/webhooks/:name',
    needs: ['GET /api/v1/webhooks/targets/:name/attempts'],
    component: lazy(() => import('./pages/target.tsx')),
  },
]
