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
  /** Hidden from callers that may not call these. */
  needs: readonly string[]
  component: ComponentType
}

export const pages: readonly PageEntry[] = [
  { path: '/', menu: 'Overview', letter: 'o', needs: ['GET /api/v1/brain/state'], component: Overview },
  {
    path: '/agents',
    menu: 'Agents',
    letter: 'a',
    needs: ['GET /api/v1/agents'],
    component: lazy(() => import('./pages/agents.tsx')),
  },
  {
    path: '/agents/:agent_id',
    needs: ['GET /api/v1/agents/:agent_id'],
    component: lazy(() => import('./pages/agent.tsx')),
  },
  {
    path: '/agent-keys',
    menu: 'Agent keys',
    letter: 'k',
    needs: ['GET /api/v1/agent-keys'],
    component: lazy(() => import('./pages/agent-keys.tsx')),
  },
  {
    path: '/people',
    menu: 'People',
    letter: 'p',
    needs: ['GET /api/v1/users'],
    component: lazy(() => import('./pages/people.tsx')),
  },
  {
    path: '/runs',
    menu: 'Runs',
    letter: 'm',
    needs: ['GET /api/v1/runs'],
    component: lazy(() => import('./pages/runs.tsx')),
  },
  {
    path: '/runs/:runId',
    needs: ['GET /api/v1/runs/:runId', 'GET /api/v1/runs/:runId/events'],
    component: lazy(() => import('./pages/run.tsx')),
  },
  {
    path: '/dispatches',
    menu: 'Dispatches',
    letter: 'i',
    needs: ['GET /api/v1/dispatches'],
    component: lazy(() => import('./pages/dispatches.tsx')),
  },
  {
    path: '/dispatches/:goalId',
    needs: ['GET /api/v1/dispatches/:goalId', 'GET /api/v1/dispatches/:goalId/events'],
    component: lazy(() => import('./pages/dispatch.tsx')),
  },
  {
    path: '/schedules',
    menu: 'Schedules',
    letter: 'h',
    needs: ['GET /api/v1/schedules'],
    component: lazy(() => import('./pages/schedules.tsx')),
  },
  {
    path: '/schedules/:id',
    needs: ['GET /api/v1/schedules/:id', 'GET /api/v1/schedules/:id/runs'],
    component: lazy(() => import('./pages/schedule.tsx')),
  },
  {
    path: '/topics',
    menu: 'Topics',
    letter: 't',
    needs: ['GET /api/v1/log/topics'],
    component: lazy(() => import('./pages/topics.tsx')),
  },
  {
    path: '/topics/:topic',
    needs: ['GET /api/v1/log/topics/:topic'],
    component: lazy(() => import('./pages/topic.tsx')),
  },
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
    needs: ['GET /api/v1/webhooks/targets/:name', 'GET /api/v1/webhooks/targets/:name/attempts'],
    component: lazy(() => import('./pages/target.tsx')),
  },
  {
    path: '/dead-letters',
    menu: 'Dead letters',
    letter: 'd',
    needs: ['GET /api/v1/dead-letters'],
    component: lazy(() => import('./pages/dead-letters.tsx')),
  },
  {
    path: '/search',
    menu: 'Search',
    letter: 's',
    needs: ['GET /api/v1/collections', 'POST /api/v1/collections/:collection/search'],
    component: lazy(() => import('./pages/search.tsx')),
  },
  {
    path: '/notes',
    menu: 'Notes',
    letter: 'n',
    needs: ['GET /api/v1/fleet_notes'],
    component: lazy(() => import('./pages/notes.tsx')),
  },
  {
    path: '/notes/:id',
    needs: ['GET /api/v1/fleet_notes/:id/thread'],
    component: lazy(() => import('./pages/note.tsx')),
  },
  {
    path: '/goals',
    menu: 'Goals',
    letter: 'l',
    needs: ['GET /api/v1/goals'],
    component: lazy(() => import('./pages/goals.tsx')),
  },
  {
    path: '/audit',
    menu: 'Who did what',
    letter: 'u',
    needs: ['GET /api/v1/audit'],
    component: lazy(() => import('./pages/audit.tsx')),
  },
  {
    path: '/requests',
    menu: 'Requests',
    letter: 'r',
    needs: ['GET /api/v1/requests/:id'],
    component: lazy(() => import('./pages/request.tsx')),
  },
  {
    path: '/requests/:id',
    needs: ['GET /api/v1/requests/:id'],
    component: lazy(() => import('./pages/request.tsx')),
  },
]
