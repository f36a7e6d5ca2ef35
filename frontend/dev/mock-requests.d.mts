export function requestRoutes(mock: object): object;
