import type { Known } from '../src/lib/api/types';

export const knownModels: Known[];
export function libraryRoutes(mock: object): object;
